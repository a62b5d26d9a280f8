#include "optim/backup.h"

#include <map>

#include "tensor/copy.h"

namespace sextant {

// One flat tensor per dtype.
Backup::Backup(Stream& stream, std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  std::map<DType, int64_t> elements;
  for (const Tensor& tensor : tensors_) elements[tensor.dtype()] += tensor.elements();
  std::map<DType, Tensor> flat;
  for (const auto& [dtype, count] : elements)
    flat[dtype] = stream.arena().allocate(Category::Optimizer, dtype, {count});
  std::map<DType, int64_t> placed;
  for (const Tensor& tensor : tensors_) {
    int64_t& at = placed[tensor.dtype()];
    copies_.push_back(flat[tensor.dtype()].slice(at, at + tensor.elements()));
    at += tensor.elements();
  }
}

void Backup::save(Stream& stream) {
  for (size_t i = 0; i < tensors_.size(); ++i) copy(stream, copies_[i], tensors_[i]);
}

void Backup::restore(Stream& stream) {
  for (size_t i = 0; i < tensors_.size(); ++i) copy(stream, tensors_[i], copies_[i]);
}

}  // namespace sextant

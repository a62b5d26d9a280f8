#include "optim/backup.h"

#include "tensor/copy.h"

namespace sextant {

Backup::Backup(Stream& stream, std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  int64_t elements = 0;
  for (const Tensor& tensor : tensors_) {
    SXT_CHECK(tensor.dtype() == tensors_[0].dtype(), Internal, "a backup of ",
              name_of(tensors_[0].dtype()), " and ", name_of(tensor.dtype()));
    elements += tensor.elements();
  }
  const DType dtype = tensors_.empty() ? DType::F32 : tensors_[0].dtype();
  const Tensor flat = stream.arena().allocate(Category::Optimizer, dtype, {elements});
  int64_t at = 0;
  for (const Tensor& tensor : tensors_) {
    copies_.push_back(flat.slice(at, at + tensor.elements()));
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

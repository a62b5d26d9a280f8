#include "optim/backup.h"

#include "tensor/copy.h"

namespace sextant {

Backup::Backup(Stream& stream, std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const Tensor& tensor : tensors_)
    copies_.push_back(stream.arena().allocate(Category::Optimizer, tensor.dtype(), tensor.shape()));
}

void Backup::save(Stream& stream) {
  for (size_t i = 0; i < tensors_.size(); ++i) copy(stream, copies_[i], tensors_[i]);
}

void Backup::restore(Stream& stream) {
  for (size_t i = 0; i < tensors_.size(); ++i) copy(stream, tensors_[i], copies_[i]);
}

}  // namespace sextant

#pragma once
#include <vector>

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// A second copy of tensors, to go back to.
class Backup {
 public:
  // Allocates as much again, as optimizer state.
  Backup(Stream& stream, std::vector<Tensor> tensors);

  void save(Stream& stream);
  void restore(Stream& stream);  // the bits that were saved last

 private:
  std::vector<Tensor> tensors_, copies_;
};

}  // namespace sextant

#pragma once
#include <vector>

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// A backup copy of tensors.
class Backup {
 public:
  // Allocates the copy as optimizer state.
  Backup(Stream& stream, std::vector<Tensor> tensors);

  void save(Stream& stream);
  void restore(Stream& stream);  // to the bits saved last

 private:
  std::vector<Tensor> tensors_, copies_;
};

}  // namespace sextant

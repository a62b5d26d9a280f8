#pragma once
#include <string>

#include "ops/dispatch.h"
#include "tensor/tensor.h"

namespace sextant {

// A trained tensor with its gradient. `name` is global: the same in every layout.
struct Param {
  std::string name;
  Tensor value;
  Tensor grad;
  bool decay = false;  // weight decay applies
  // Rows of dim 0 that exist in the model; the rest is padding, always zero. = dim 0 mostly.
  int64_t valid_rows = 0;

  // How the next contribution meets the gradient: the first of a step replaces, later ones add.
  Write next_write() {
    const Write write = touched ? Write::Add : Write::Replace;
    touched = true;
    return write;
  }
  void start_step() { touched = false; }

  bool touched = false;  // has this step's gradient begun?
};

// A tensor of the training state under its global name, as checkpoints see it: weights under the
// parameter's own name, optimizer state under "optim.<kind>.<parameter>".
struct NamedTensor {
  std::string name;
  Tensor tensor;
  int64_t valid_rows = 0;  // rows of dim 0 that are stored
};

}  // namespace sextant

#pragma once
#include <string>
#include <vector>

#include "base/fragment.h"
#include "base/number_types.h"
#include "base/range.h"
#include "ops/dispatch.h"
#include "program/groups.h"
#include "tensor/tensor.h"

namespace sextant {

// A trained tensor with its gradient. `name` is global: the same in every layout.
struct Param {
  std::string name;
  Shape shape;   // of what this rank has
  Tensor value;  // of that shape
  Tensor grad;
  bool decay = false;  // weight decay applies
  Shape whole;         // shape over all ranks that share its layer
  // Rows of dim 0 of the whole that exist in the model; the rest is padding, always zero. = dim 0
  // mostly.
  int64_t valid_rows = 0;
  Fragment fragment;  // what this rank has of the whole
  // Elements that `copies` ranks in a row of those that share the layer have too, and whether their
  // gradients are terms of one sum.
  Range shared;
  int copies = 1;
  bool is_partial = false;

  // [1] of f64 or empty. When it is there, layers add what the absolute terms of the gradient can
  // sum up to (ops/term_bound.h): what rounding is measured by.
  Tensor terms;

  // How the next contribution meets the gradient: the first of a step replaces, later ones add.
  Write next_write() {
    const Write write = touched ? Write::Add : Write::Replace;
    touched = true;
    return write;
  }
  void start_step() { touched = false; }

  bool touched = false;  // has this step's gradient begun?
};

// The parameters of a rank, in the order of plan.params, without memory.
std::vector<Param> make_params(const Blueprint& blueprint, const GroupPlan& plan);

// A part of a parameter that this rank updates: elements range.begin ... range.end - 1 of what it
// has of the parameter as a flat vector, perhaps none. Together the ranks of a shard group have
// every element once.
struct OwnedSlice {
  std::string name;
  Shape shape;             // of the whole parameter
  int64_t valid_rows = 0;  // of it
  bool decay = false;
  Range range;
  Tensor value, grad;  // [range.size()]; no grad in a model that is not trained
  // False where another rank has the same and speaks for both.
  bool counts = true;
  Fragment fragment = {};  // what the parameter of this rank is of the whole
  int group = 0;           // of this rank's groups
  NumberTypes types = {};
};

// A tensor of the training state under its global name, as checkpoints see it: weights under the
// parameter's own name, optimizer state under "optim.<kind>.<parameter>". It may be a part of the
// whole: flat elements first ... of `fragment`, or of the whole itself, whose shape is `shape`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  int64_t valid_rows = 0;  // rows of dim 0 of the whole that are stored
  Shape shape = {};        // of the whole, padding included; no dims: `tensor` is the whole
  int64_t first = 0;       // element that the tensor begins with
  Fragment fragment = {};  // no rows: the whole
};

}  // namespace sextant

#pragma once
#include "base/dtype.h"

namespace sextant {

// The types of a run's numbers, by what they are for. A group of parameters has its own.
struct NumberTypes {
  DType compute = DType::F32;      // weights as layers multiply with them, and activations
  DType residual = DType::F32;     // what passes from layer to layer and from stage to stage
  DType statistics = DType::F32;   // of norms, log-sum-exps and losses
  DType gradients = DType::F32;    // in which gradients add up
  DType gather_wire = DType::F32;  // weights on their way to other ranks
  DType reduce_wire = DType::F32;  // gradients on theirs
  DType master = DType::F32;       // weights as the optimizer keeps them
  DType moments = DType::F32;
  friend bool operator==(const NumberTypes&, const NumberTypes&) = default;
};

// One type for all.
constexpr NumberTypes all_of(DType dtype) {
  return {dtype, dtype, dtype, dtype, dtype, dtype, dtype, dtype};
}

}  // namespace sextant

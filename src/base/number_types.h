#pragma once
#include "base/dtype.h"

namespace sextant {

// The dtypes of a run (mixed precision) by purpose; each parameter group has its own.
struct NumberTypes {
  DType compute = DType::F32;      // weights in GEMMs, and activations
  DType residual = DType::F32;     // residual stream, also between pipeline stages
  DType statistics = DType::F32;   // of norms, log-sum-exps and losses
  DType gradients = DType::F32;    // gradient accumulation
  DType gather_wire = DType::F32;  // weights in all-gathers
  DType reduce_wire = DType::F32;  // gradients in reductions
  DType master = DType::F32;       // weights that the optimizer updates; if not that of compute,
                                   // a copy of its own
  DType moments = DType::F32;
  DType linear = DType::F32;  // operands of linear layers in attention and MLP: compute or f8e4m3
  friend bool operator==(const NumberTypes&, const NumberTypes&) = default;
};

// The same dtype for all purposes.
constexpr NumberTypes all_of(DType dtype) {
  return {dtype, dtype, dtype, dtype, dtype, dtype, dtype, dtype, dtype};
}

}  // namespace sextant

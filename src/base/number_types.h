#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace sextant {

// Where the scales of fp8 operands come from.
//   Tensor   the largest value of each tensor
//   Delayed  the largest value of each tensor in the steps before
//   Block    the largest value of each tile of 1 x 128 or block of 128 x 128
enum class Fp8Recipe { Tensor, Delayed, Block };

struct Fp8Scaling {
  Fp8Recipe recipe = Fp8Recipe::Tensor;
  int64_t history = 1024;  // Delayed: steps that count
  int64_t margin = 0;  // Delayed: powers of two between the largest value and the largest number
  friend bool operator==(const Fp8Scaling&, const Fp8Scaling&) = default;
};

// The dtypes of a run (mixed precision) by purpose; each parameter group has its own.
struct NumberTypes {
  DType compute = DType::F32;  // weights in GEMMs and all-gathers; activations, with the residual
                               // stream and its messages between pipeline stages
  DType statistics = DType::F32;  // of norms, log-sum-exps and losses
  DType gradients = DType::F32;   // gradient accumulation and reductions
  DType master = DType::F32;      // weights that the optimizer updates; if not that of compute, a
                                  // copy of its own
  DType moments = DType::F32;
  DType linear = DType::F32;  // operands of linear layers in attention and MLP: compute or f8e4m3
  Fp8Scaling fp8 = {};        // of these operands
  friend bool operator==(const NumberTypes&, const NumberTypes&) = default;
};

// The same dtype for all purposes.
constexpr NumberTypes all_of(DType dtype) {
  return {dtype, dtype, dtype, dtype, dtype, dtype, {}};
}

}  // namespace sextant

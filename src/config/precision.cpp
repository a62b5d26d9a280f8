#include "config/config.h"

namespace sextant {
namespace {

DType dtype_of(ComputeType type) {
  switch (type) {
    case ComputeType::Fp32:
      return DType::F32;
    case ComputeType::Bf16:
      return DType::BF16;
    case ComputeType::Fp16:
      return DType::F16;
    case ComputeType::Fp8:  // of all but the operands of linear layers
      return DType::BF16;
    case ComputeType::Fp64:
      return DType::F64;
  }
  return DType::F32;
}

}  // namespace

NumberTypes number_types(const PrecisionConfig& precision) {
  if (precision.compute == ComputeType::Fp64) return all_of(DType::F64);
  NumberTypes types = all_of(dtype_of(precision.compute));
  types.statistics = DType::F32;
  types.gradients = dtype_of(precision.grads);
  if (precision.master == MasterWeights::Fp32) types.master = DType::F32;
  types.moments = dtype_of(precision.moments);
  if (precision.compute == ComputeType::Fp8) {
    types.linear = DType::F8E4M3;
    types.fp8 = {precision.fp8_recipe, precision.fp8_amax_history_len, precision.fp8_margin};
  }
  return types;
}

}  // namespace sextant

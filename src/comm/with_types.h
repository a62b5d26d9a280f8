#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "base/error.h"
#include "comm/call.h"

namespace sextant {

// Calls f.template operator()<element type, reduction>() for runtime values.
template <class T, class F>
void with_reduce_op(ReduceOp reduce_op, F&& f) {
  switch (reduce_op) {
    case ReduceOp::Sum:
      return f.template operator()<T, ReduceOp::Sum>();
    case ReduceOp::Max:
      return f.template operator()<T, ReduceOp::Max>();
    case ReduceOp::Min:
      return f.template operator()<T, ReduceOp::Min>();
  }
}

template <class F>
void with_types(DType dtype, ReduceOp reduce_op, F&& f) {
  switch (dtype) {
    case DType::F64:
      return with_reduce_op<double>(reduce_op, f);
    case DType::F32:
      return with_reduce_op<float>(reduce_op, f);
    case DType::BF16:
      return with_reduce_op<bf16>(reduce_op, f);
    case DType::F16:
      return with_reduce_op<f16>(reduce_op, f);
    case DType::I32:
      return with_reduce_op<int32_t>(reduce_op, f);
    case DType::I64:
      return with_reduce_op<int64_t>(reduce_op, f);
    default:
      SXT_FAIL(Internal, "a reduction of ", name_of(dtype));
  }
}

}  // namespace sextant

#pragma once
#include <algorithm>

#include "base/range.h"
#include "ops/fault_texts.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant::cpu {

// f(number of the expert, its rows) in the order of the experts. Offsets that do not ascend or
// exceed the rows are clamped and reported.
template <class F>
void for_experts(Stream& stream, const char* op, const Tensor& offsets, int64_t rows, F&& f) {
  const int32_t* at = offsets.data<int32_t>();
  const int64_t experts = offsets.dim(0) - 1;
  int64_t begin = std::clamp<int64_t>(at[0], 0, rows);
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t end = std::clamp<int64_t>(at[e + 1], begin, rows);
    if (at[e] != begin || at[e + 1] != end)
      stream.report({Fault::Internal, op, kBadExpertRows, {at[e], at[e + 1], e, rows}});
    f(e, Range{begin, end});
    begin = end;
  }
}

}  // namespace sextant::cpu

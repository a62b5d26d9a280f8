// One product per expert, each on all threads: at the sizes of training an expert's product has
// enough tiles for them, and its bits are those of `matmul`.
#include "ops/grouped_linear.h"

#include <algorithm>

#include "ops/cpu/gemm.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {

decltype(sextant::matmul) matmul;

namespace {

// f(rows of the expert, its block of `block` rows of the weights). Offsets that do not ascend or
// exceed the rows are clamped and reported.
template <class F>
void for_experts(Stream& stream, const char* op, const Tensor& offsets, int64_t rows, int64_t block,
                 F&& f) {
  const int32_t* at = offsets.data<int32_t>();
  const int64_t experts = offsets.dim(0) - 1;
  int64_t begin = std::clamp<int64_t>(at[0], 0, rows);
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t end = std::clamp<int64_t>(at[e + 1], begin, rows);
    if (at[e] != begin || at[e + 1] != end)
      stream.report({Fault::Internal, op, kBadExpertRows, {at[e], at[e + 1], e, rows}});
    f(Range{begin, end}, Range{e * block, (e + 1) * block});
    begin = end;
  }
}

}  // namespace

void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets) {
  for_experts(stream, "grouped_linear", offsets, x.dim(0), y.dim(1),
              [&](const Range& rows, const Range& block) {
                if (rows.size() == 0) return;
                Tensor out = y.slice(rows);
                cpu::matmul(stream, out, x.slice(rows), Transpose::No, weight.slice(block),
                            Transpose::Yes, {});
              });
}

void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets) {
  for_experts(stream, "grouped_linear_backward_input", offsets, dy.dim(0), dy.dim(1),
              [&](const Range& rows, const Range& block) {
                if (rows.size() == 0) return;
                Tensor out = dx.slice(rows);
                cpu::matmul(stream, out, dy.slice(rows), Transpose::No, weight.slice(block),
                            Transpose::No, {});
              });
}

void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write) {
  for_experts(stream, "grouped_linear_backward_weight", offsets, x.dim(0), dy.dim(1),
              [&](const Range& rows, const Range& block) {
                if (rows.size() == 0 && write == Write::Add) return;
                Tensor out = dweight.slice(block);
                cpu::matmul(stream, out, dy.slice(rows), Transpose::Yes, x.slice(rows),
                            Transpose::No, {.write = write});
              });
}

}  // namespace sextant::cpu

// One product per expert, each on all threads: at the sizes of training an expert's product has
// enough tiles for them, and its bits are those of `matmul`.
#include "ops/grouped_linear.h"

#include <cstring>

#include "ops/cpu/expert_rows.h"
#include "ops/cpu/gemm.h"
#include "ops/grouped_quantize.h"

namespace sextant::cpu {

decltype(sextant::matmul) matmul;

namespace {

// The scales of one expert.
struct Scales {
  Tensor amax = {};
  ScaleBlock block = {};
};

Scales of_rows(const Tensor& amax, const ScaleBlock& block, int64_t expert, const Range& rows) {
  if (!amax) return {};
  if (block == ScaleBlock{}) return {amax.slice(expert, expert + 1), block};
  if (block.rows == 1) return {amax.slice(rows), block};
  return {amax.slice(tiles_of_expert(rows, expert)), block};
}

Scales of_weight(const Tensor& amax, const ScaleBlock& block, int64_t expert, int64_t experts) {
  if (!amax) return {};
  const int64_t each = amax.dim(0) / experts;
  const bool is_one = block.columns == 0;
  return {amax.slice(expert * each, (expert + 1) * each), is_one ? ScaleBlock{} : kWeightBlock};
}

Epilogue scaled(const Scales& a, const Scales& b, Write write = Write::Replace) {
  return {
      .write = write, .amax_a = a.amax, .amax_b = b.amax, .block_a = a.block, .block_b = b.block};
}

// c = a times the expert's `out` rows of the weight, in each expert's rows.
void multiply_rows(Stream& stream, const char* op, Tensor& c, const Tensor& a, const Tensor& weight,
                   Transpose transpose, int64_t out, const Tensor& offsets,
                   const GroupedScales& scales) {
  const int64_t experts = offsets.dim(0) - 1;
  for_experts(stream, op, offsets, a.dim(0), [&](int64_t e, const Range& rows) {
    if (rows.size() == 0) return;
    Tensor part = c.slice(rows);
    cpu::matmul(stream, part, a.slice(rows), Transpose::No, weight.slice(e * out, (e + 1) * out),
                transpose,
                scaled(of_rows(scales.amax_a, scales.block_a, e, rows),
                       of_weight(scales.amax_b, scales.block_b, e, experts)));
  });
}

}  // namespace

void grouped_linear(Stream& stream, Tensor& y, const Tensor& x, const Tensor& weight,
                    const Tensor& offsets, const GroupedScales& scales) {
  multiply_rows(stream, "grouped_linear", y, x, weight, Transpose::Yes, y.dim(1), offsets, scales);
}

void grouped_linear_backward_input(Stream& stream, Tensor& dx, const Tensor& dy,
                                   const Tensor& weight, const Tensor& offsets,
                                   const GroupedScales& scales) {
  multiply_rows(stream, "grouped_linear_backward_input", dx, dy, weight, Transpose::No, dy.dim(1),
                offsets, scales);
}

void grouped_linear_backward_weight(Stream& stream, Tensor& dweight, const Tensor& dy,
                                    const Tensor& x, const Tensor& offsets, Write write,
                                    const GroupedScales& scales) {
  const int64_t out = dy.dim(1);
  for_experts(stream, "grouped_linear_backward_weight", offsets, x.dim(0),
              [&](int64_t e, const Range& rows) {
                Tensor part = dweight.slice(e * out, (e + 1) * out);
                if (rows.size() == 0) {
                  if (write == Write::Replace)
                    std::memset(part.raw(), 0, static_cast<size_t>(part.bytes()));
                  return;
                }
                cpu::matmul(stream, part, dy.slice(rows), Transpose::Yes, x.slice(rows),
                            Transpose::No,
                            scaled(of_rows(scales.amax_a, scales.block_a, e, rows),
                                   of_rows(scales.amax_b, scales.block_b, e, rows), write));
              });
}

}  // namespace sextant::cpu

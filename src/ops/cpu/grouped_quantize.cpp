#include "ops/grouped_quantize.h"

#include "ops/cpu/expert_rows.h"

namespace sextant::cpu {

decltype(sextant::block_amax) block_amax;
decltype(sextant::quantize) quantize;

namespace {

Tensor scales_of(const Tensor& amax, const ScaleBlock& block, int64_t expert, const Range& rows) {
  return block == ScaleBlock{} ? amax.slice(expert, expert + 1)
                               : amax.slice(tiles_of_expert(rows, expert));
}

}  // namespace

void grouped_amax(Stream& stream, Tensor& amax, const Tensor& x, const Tensor& offsets,
                  const ScaleBlock& block) {
  for_experts(stream, "grouped_amax", offsets, x.dim(0), [&](int64_t expert, const Range& rows) {
    Tensor own = scales_of(amax, block, expert, rows);
    const Tensor part = x.slice(rows);
    if (own.elements() > 0) cpu::block_amax(stream, own, part, block, {part.shape(), 0});
  });
}

void grouped_quantize(Stream& stream, Tensor& q, const Tensor& x, const Tensor& amax,
                      const Tensor& offsets, const ScaleBlock& block) {
  for_experts(stream, "grouped_quantize", offsets, x.dim(0),
              [&](int64_t expert, const Range& rows) {
                if (rows.size() == 0) return;
                Tensor to = q.slice(rows);
                const Tensor part = x.slice(rows);
                cpu::quantize(stream, to, part, scales_of(amax, block, expert, rows), block,
                              {part.shape(), 0});
              });
}

}  // namespace sextant::cpu

#include "ops/matmul_workspace.h"

namespace sextant {
namespace {

constexpr int64_t kAligned = 256;
constexpr int64_t kMultiple = 16;  // of all sizes of a product that the library takes

constexpr int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

Fp8Scales scales_of(const ScaleBlock& block, bool is_k_down, int64_t k) {
  if (block == ScaleBlock{}) return Fp8Scales::One;
  const int64_t along_k = is_k_down ? block.rows : block.columns;
  const int64_t lines = is_k_down ? block.columns : block.rows;
  const bool is_whole = block.part_rows == 0 ||
                        (is_k_down && (block.part_rows >= k || block.part_rows % along_k == 0));
  if (along_k != kScaleBlock || !is_whole) return Fp8Scales::None;
  return lines == 1 ? Fp8Scales::Tiles : lines == kScaleBlock ? Fp8Scales::Blocks : Fp8Scales::None;
}

// Places the copy and the scales of one operand behind `at`.
void place(Fp8Workspace::Side& side, int64_t k, bool is_k_down, int64_t& at) {
  side.k_tiles = (k + kScaleBlock - 1) / kScaleBlock;
  side.scale_lines = side.lines;
  if (side.scales == Fp8Scales::One) side.scale_lines = side.k_tiles = 1;
  if (side.scales == Fp8Scales::Blocks) {
    side.scale_lines = (side.lines + kScaleBlock - 1) / kScaleBlock;
    side.k_tiles = round_up(side.k_tiles, 4);
  }
  side.copied_bytes = is_k_down ? side.lines * k : 0;
  side.copied_at = at;
  at += round_up(side.copied_bytes, kAligned);
  side.scales_bytes = side.scale_lines * side.k_tiles * static_cast<int64_t>(sizeof(float));
  side.scales_at = at;
  at += round_up(side.scales_bytes, kAligned);
}

}  // namespace

Fp8Workspace fp8_workspace(const Tensor& a, Transpose transpose_a, const Tensor& b,
                           Transpose transpose_b, const Epilogue& epilogue) {
  const bool ta = transpose_a == Transpose::Yes, tb = transpose_b == Transpose::Yes;
  Fp8Workspace out;
  out.m = out.a.lines = a.dim(ta ? 1 : 0);
  out.n = out.b.lines = b.dim(tb ? 0 : 1);
  out.k = a.dim(ta ? 0 : 1);
  out.a.scales = scales_of(epilogue.block_a, ta, out.k);
  out.b.scales = scales_of(epilogue.block_b, !tb, out.k);
  const bool has_sizes = out.m > 0 && out.n > 0 && out.k > 0 && out.m % kMultiple == 0 &&
                         out.n % kMultiple == 0 && out.k % kMultiple == 0;
  const bool has_types = a.dtype() == DType::F8E4M3 || b.dtype() == DType::F8E4M3;
  const bool has_scales = out.a.scales != Fp8Scales::None && out.b.scales != Fp8Scales::None &&
                          !(out.a.scales == Fp8Scales::Blocks && out.b.scales == Fp8Scales::Blocks);
  out.is_library = has_sizes && has_types && has_scales;
  if (!out.is_library) return out;
  place(out.a, out.k, ta, out.bytes);
  place(out.b, out.k, !tb, out.bytes);
  return out;
}

}  // namespace sextant

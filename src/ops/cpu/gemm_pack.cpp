// Two cases. Where lines are neighbours in memory (k_stride > 1) a row of k is copied in one go
// across all panels. Where k is contiguous the block is transposed in registers, eight lines by
// sixteen k at a time: a cache line of each source line, so that lines whose distance is a power of
// two, which share a cache set, are each fetched once.
#include "ops/cpu/gemm_pack.h"

#include <algorithm>

#include "ops/cpu/transpose.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kAhead = 8;  // rows that copies prefetch ahead: strides defeat the hardware

template <class T>
struct Source {
  const T* data;
  int64_t line_stride, k_stride;
};

// Any lines, any strides: the tails.
template <class T, class S>
void pack_slowly(T* out, const Source<S>& from, int64_t lines, int64_t k, int64_t width) {
  for (int64_t p = 0; p < k; ++p, out += width) {
    for (int64_t i = 0; i < lines; ++i)
      out[i] = value_of(from.data[i * from.line_stride + p * from.k_stride]);
    for (int64_t i = lines; i < width; ++i) out[i] = 0;
  }
}

template <int kWidth, class T, class S>
SXT_INLINE void copy_row(T* to, const S* from) {
  if constexpr (std::is_same_v<T, S>) {
    std::memcpy(to, from, kWidth * sizeof(T));
  } else {
    int64_t i = 0;
    for (; i + 8 <= kWidth; i += 8) store<f32x8>(to + i, load<f32x8>(from + i));
    for (; i < kWidth; ++i) to[i] = value_of(from[i]);
  }
}

// Lines are neighbours: row p of every panel from row p of the source.
template <int kWidth, class T, class S>
void copy_panels(T* out, const Source<S>& from, int64_t panels, int64_t k) {
  for (int64_t p = 0; p < k; ++p) {
    const S* row = from.data + p * from.k_stride;
    const S* ahead = from.data + std::min(p + kAhead, k - 1) * from.k_stride;
    for (int64_t panel = 0; panel < panels; ++panel) {
      __builtin_prefetch(ahead + panel * kWidth);
      if constexpr (kWidth * sizeof(S) > 64)
        __builtin_prefetch(ahead + panel * kWidth + kWidth / 2);
      copy_row<kWidth>(out + (panel * k + p) * kWidth, row + panel * kWidth);
    }
  }
}

// kLines <= 8 lines by eight k.
template <int kLines, int kWidth, class S>
SXT_INLINE void transpose_block(float* out, const S* from, int64_t line_stride) {
  f32x8 rows[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) rows[i] = i < kLines ? load<f32x8>(from + i * line_stride) : f32x8{};
  transpose(rows);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) std::memcpy(out + i * kWidth, &rows[i], kLines * sizeof(float));
}

// k is contiguous: one whole panel.
template <int kWidth, class S>
void transpose_panel(float* out, const Source<S>& from, int64_t k) {
  constexpr int64_t kStep = 16;
  constexpr int kRest = kWidth % 8;
  int64_t p = 0;
  for (; p + kStep <= k; p += kStep)
#pragma GCC unroll 1
    for (int64_t line = 0; line < kWidth; line += 8)
#pragma GCC unroll 2
      for (int64_t half = p; half < p + kStep; half += 8) {
        const S* block = from.data + line * from.line_stride + half;
        float* to = out + half * kWidth + line;
        if (kRest == 0 || line + 8 <= kWidth)
          transpose_block<8, kWidth>(to, block, from.line_stride);
        else
          transpose_block<kRest == 0 ? 8 : kRest, kWidth>(to, block, from.line_stride);
      }
  pack_slowly(out + p * kWidth, Source<S>{from.data + p, from.line_stride, 1}, kWidth, k - p,
              kWidth);
}

template <int kWidth>
void transpose_panel(double* out, const Source<double>& from, int64_t k) {
  pack_slowly(out, from, kWidth, k, kWidth);
}

template <int kWidth, class T, class S>
void pack_panels(T* out, const Source<S>& from, int64_t lines, int64_t k) {
  const int64_t whole = lines / kWidth;
  if (from.line_stride == 1)
    copy_panels<kWidth>(out, from, whole, k);
  else
    for (int64_t panel = 0; panel < whole; ++panel)
      transpose_panel<kWidth>(
          out + panel * k * kWidth,
          Source<S>{from.data + panel * kWidth * from.line_stride, from.line_stride, 1}, k);
  if (const int64_t rest = lines - whole * kWidth)
    pack_slowly(
        out + whole * k * kWidth,
        Source<S>{from.data + whole * kWidth * from.line_stride, from.line_stride, from.k_stride},
        rest, k, kWidth);
}

template <class T, class S>
void pack_from(T* out, const Source<S>& source, int64_t lines, int64_t k, int64_t width) {
  if (width == 6) return pack_panels<6>(out, source, lines, k);
  if (width == 8) return pack_panels<8>(out, source, lines, k);
  if (width == 12) return pack_panels<12>(out, source, lines, k);
  if (width == 16) return pack_panels<16>(out, source, lines, k);
  if (width == 32) return pack_panels<32>(out, source, lines, k);
  SXT_FAIL(Internal, "gemm: no packing for panels of ", width);
}

}  // namespace

template <class T>
void pack(T* out, const Operand& from, int64_t first_line, int64_t lines, int64_t first_k,
          int64_t k, int64_t width, float scale) {
  const auto pack_as = [&]<class S>(S) {
    const Source<S> source{from.at<S>(first_line, first_k), from.line_stride, from.k_stride};
    pack_from(out, source, lines, k, width);
  };
  if constexpr (std::is_same_v<T, float>) {
    if (from.dtype == DType::BF16) return pack_as(bf16{});
    if (from.dtype == DType::F16) return pack_as(f16{});
    if (is_fp8(from.dtype)) {
      from.dtype == DType::F8E4M3 ? pack_as(f8e4m3{}) : pack_as(f8e5m2{});
      if (scale == 1) return;
      const int64_t count = (lines + width - 1) / width * width * k;
      for (int64_t i = 0; i < count; ++i) out[i] *= scale;
      return;
    }
  }
  pack_as(T{});
}

template void pack(float*, const Operand&, int64_t, int64_t, int64_t, int64_t, int64_t, float);
template void pack(double*, const Operand&, int64_t, int64_t, int64_t, int64_t, int64_t, float);

}  // namespace sextant::cpu

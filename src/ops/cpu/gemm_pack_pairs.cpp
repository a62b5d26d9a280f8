// As gemm_pack.cpp, on words of two bf16. Where lines are neighbours two rows of k are joined;
// where k is contiguous, words are read as they lie, their halves exchanged, and transposed in
// registers.
#include <algorithm>

#include "base/error.h"
#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/transpose.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kAhead = 8;  // rows

struct Pairs {
  const uint16_t* data;
  int64_t line_stride, k_stride;
  int64_t k;      // elements
  uint16_t rest;  // for an odd k

  int64_t words() const { return (k + 1) / 2; }
  int64_t whole_words() const { return k / 2; }
  uint32_t word(int64_t line, int64_t at) const {
    const uint16_t* even = data + line * line_stride + 2 * at * k_stride;
    return uint32_t{*even} << 16 | (2 * at + 1 < k ? even[k_stride] : rest);
  }
  Pairs from_line(int64_t line) const {
    return {data + line * line_stride, line_stride, k_stride, k, rest};
  }
};

// Words from `first` on, any lines, any strides: the tails.
void pack_slowly(uint32_t* out, const Pairs& from, int64_t lines, int64_t first, int64_t width) {
  for (int64_t p = first; p < from.words(); ++p) {
    uint32_t* row = out + p * width;
    for (int64_t i = 0; i < lines; ++i) row[i] = from.word(i, p);
    std::fill(row + lines, row + width, 0);
  }
}

template <int kWidth>
SXT_INLINE void join_rows(uint32_t* to, const uint16_t* even, const uint16_t* odd) {
#pragma GCC unroll 8
  for (int i = 0; i < kWidth; ++i) to[i] = uint32_t{even[i]} << 16 | odd[i];
}

// Lines are neighbours.
template <int kWidth>
void join_panels(uint32_t* out, const Pairs& from, int64_t panels) {
  for (int64_t p = 0; p < from.whole_words(); ++p) {
    const uint16_t* even = from.data + 2 * p * from.k_stride;
    const int64_t ahead = std::min(2 * (p + kAhead), from.k - 2) * from.k_stride;
    for (int64_t panel = 0; panel < panels; ++panel) {
      __builtin_prefetch(from.data + ahead + panel * kWidth);
      __builtin_prefetch(from.data + ahead + from.k_stride + panel * kWidth);
      join_rows<kWidth>(out + (panel * from.words() + p) * kWidth, even + panel * kWidth,
                        even + from.k_stride + panel * kWidth);
    }
  }
  for (int64_t panel = 0; panel < panels; ++panel)
    pack_slowly(out + panel * from.words() * kWidth, from.from_line(panel * kWidth), kWidth,
                from.whole_words(), kWidth);
}

SXT_INLINE f32x8 load_words(const uint16_t* from) {
  u32x8 words;
  std::memcpy(&words, from, sizeof words);
  words = words << 16 | words >> 16;
  f32x8 out;
  std::memcpy(&out, &words, sizeof out);
  return out;
}

// kLines <= 8 lines by eight words.
template <int kLines, int kWidth>
SXT_INLINE void transpose_words(uint32_t* out, const uint16_t* from, int64_t line_stride) {
  f32x8 rows[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) rows[i] = i < kLines ? load_words(from + i * line_stride) : f32x8{};
  transpose(rows);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) std::memcpy(out + i * kWidth, &rows[i], kLines * sizeof(uint32_t));
}

// k is contiguous: one whole panel.
template <int kWidth>
void transpose_panel(uint32_t* out, const Pairs& from) {
  constexpr int64_t kStep = 16;  // words, a cache line
  constexpr int kRest = kWidth % 8 == 0 ? 8 : kWidth % 8;
  int64_t p = 0;
  for (; p + kStep <= from.whole_words(); p += kStep)
#pragma GCC unroll 1
    for (int64_t line = 0; line < kWidth; line += 8)
#pragma GCC unroll 2
      for (int64_t half = p; half < p + kStep; half += 8) {
        const uint16_t* block = from.data + line * from.line_stride + 2 * half;
        uint32_t* to = out + half * kWidth + line;
        if (line + 8 <= kWidth)
          transpose_words<8, kWidth>(to, block, from.line_stride);
        else
          transpose_words<kRest, kWidth>(to, block, from.line_stride);
      }
  pack_slowly(out, from, kWidth, p, kWidth);
}

template <int kWidth>
void pack_panels(uint32_t* out, const Pairs& from, int64_t lines) {
  const int64_t whole = lines / kWidth, area = from.words() * kWidth;
  if (from.line_stride == 1)
    join_panels<kWidth>(out, from, whole);
  else
    for (int64_t panel = 0; panel < whole; ++panel)
      transpose_panel<kWidth>(out + panel * area, from.from_line(panel * kWidth));
  if (const int64_t rest = lines - whole * kWidth)
    pack_slowly(out + whole * area, from.from_line(whole * kWidth), rest, 0, kWidth);
}

}  // namespace

void pack_pairs(float* out, const Operand& from, int64_t first_line, int64_t lines, const Range& k,
                int64_t width, bf16 rest) {
  const Pairs pairs{from.at<uint16_t>(first_line, k.begin), from.line_stride, from.k_stride,
                    k.size(), rest.bits};
  auto* words = reinterpret_cast<uint32_t*>(out);
  if (width == 12) return pack_panels<12>(words, pairs, lines);
  if (width == 32) return pack_panels<32>(words, pairs, lines);
  SXT_FAIL(Internal, "gemm: no packing of pairs for panels of ", width);
}

}  // namespace sextant::cpu

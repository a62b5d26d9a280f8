#pragma once
// The micro-kernel: a tile of c lives in registers while k runs. Compiled once per instruction set.
// The tile is an array only in the source: with both loops unrolled every element is a register.
#include "ops/cpu/gemm_epilogue.h"

namespace sextant::cpu {

// sum + a * b, word by word.
struct MultiplyAdd {
  template <class V>
  [[gnu::always_inline]] static V apply(V a, V b, V sum) {
    return fma(a, b, sum);
  }
};

// kPanel: rows of a packed panel of a; kRows <= kPanel of them are computed, by kVectors of V.
template <class V, class Multiply, int kPanel, int kRows, int kVectors>
void kernel(int64_t k, const ElementOf<V>* a, const ElementOf<V>* b, const ElementOf<V>* in,
            int64_t in_stride, ElementOf<V>* out, int64_t out_stride, const Ahead& ahead) {
  constexpr int64_t kColumns = kVectors * kLanes<V>;
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = in ? load<V>(in + i * in_stride + j * kLanes<V>) : V{};

  // Fetches ahead are spread over k, a row at a time: all at once they would hold up the panels.
  const int64_t part = (k + kRows - 1) / kRows;
  for (int64_t p = 0, row = 0; p < k; ++row) {
    for (int i = 0; i < ahead.count; ++i)
      for (int64_t j = 0; j < ahead.width[i]; j += 64)
        __builtin_prefetch(ahead.matrices[i] + row * ahead.stride[i] + j);
    for (const int64_t end = p + part < k ? p + part : k; p < end; ++p) {
      V column[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) column[j] = load<V>(b + j * kLanes<V>);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V row = a[i] - V{};
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[i][j] = Multiply::apply(row, column[j], sum[i][j]);
      }
      a += kPanel;
      b += kColumns;
    }
  }

#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) store<V>(out + i * out_stride + j * kLanes<V>, sum[i][j]);
}

template <class V, int kVectors>
void promote(ElementOf<V>* total, const ElementOf<V>* sums, const ElementOf<V>* row_scales,
             const ElementOf<V>* column_scales, int64_t rows, bool is_first) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < kVectors * kLanes<V>; j += kLanes<V>) {
      const int64_t at = i * kVectors * kLanes<V> + j;
      const V scale = (row_scales[i] - V{}) * load<V>(column_scales + j);
      store<V>(total + at, fma(scale, load<V>(sums + at), is_first ? V{} : load<V>(total + at)));
    }
}

template <class V, class Multiply, int kPanel, int kVectors, int kRows = kPanel>
constexpr void fill_kernels(KernelSet<ElementOf<V>>& set) {
  set.of_rows[kRows] = &kernel<V, Multiply, kPanel, kRows, kVectors>;
  if constexpr (kRows > 1) fill_kernels<V, Multiply, kPanel, kVectors, kRows - 1>(set);
}

template <class V, int kPanel, int kVectors>
constexpr KernelSet<ElementOf<V>> make_kernels(int64_t k_block) {
  KernelSet<ElementOf<V>> set{kPanel,          kVectors * kLanes<V>,  k_block, 1,
                              &finish_tile<V>, &promote<V, kVectors>, {}};
  fill_kernels<V, MultiplyAdd, kPanel, kVectors>(set);
  return set;
}

}  // namespace sextant::cpu

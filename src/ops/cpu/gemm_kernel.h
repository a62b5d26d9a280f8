#pragma once
// The micro-kernel: a tile of c lives in registers while k runs. Compiled once per instruction set.
// The tile is an array only in the source: with both loops unrolled every element is a register.
#include "ops/cpu/gemm.h"
#include "ops/cpu/vector_math.h"

namespace sextant::cpu {

#if defined(__AVX512F__)
using f32x16 = float __attribute__((vector_size(64)));
using f64x8 = double __attribute__((vector_size(64)));
SXT_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
SXT_INLINE f64x8 fma(f64x8 a, f64x8 b, f64x8 c) {
  return _mm512_fmadd_pd(a, b, c);
}
#endif

// kPanel: rows of a packed panel of a; kRows <= kPanel of them are computed, by kVectors of V.
template <class V, int kPanel, int kRows, int kVectors>
void kernel(int64_t k, const ElementOf<V>* a, const ElementOf<V>* b, const ElementOf<V>* in,
            int64_t in_stride, ElementOf<V>* out, int64_t out_stride) {
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sum[i][j] = in ? load<V>(in + i * in_stride + j * kLanes<V>) : V{};

  for (int64_t p = 0; p < k; ++p) {
    V column[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) column[j] = load<V>(b + j * kLanes<V>);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V row = a[i] - V{};
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = fma(row, column[j], sum[i][j]);
    }
    a += kPanel;
    b += kVectors * kLanes<V>;
  }

#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) store<V>(out + i * out_stride + j * kLanes<V>, sum[i][j]);
}

template <class V, int kPanel, int kVectors, int kRows = kPanel>
constexpr void fill_kernels(KernelSet<ElementOf<V>>& set) {
  set.of_rows[kRows] = &kernel<V, kPanel, kRows, kVectors>;
  if constexpr (kRows > 1) fill_kernels<V, kPanel, kVectors, kRows - 1>(set);
}

template <class V, int kPanel, int kVectors>
constexpr KernelSet<ElementOf<V>> make_kernels(int64_t k_block) {
  KernelSet<ElementOf<V>> set{kPanel, kVectors * kLanes<V>, k_block, {}};
  fill_kernels<V, kPanel, kVectors>(set);
  return set;
}

}  // namespace sextant::cpu

#pragma once
// The inner loops of attention, compiled once per instruction set, as those of GEMM are.
// A panel is 64 bytes wide: one register of AVX-512 or two of AVX2. An element of a product is one
// chain of fused multiply-adds in ascending k, and lanes are summed halves first, so both forms
// give the same bits. Everything but the kernels themselves is forced inline.
#include "ops/cpu/vector_math.h"

namespace sextant::cpu {

inline constexpr int64_t kStrip = 12;  // rows of a product computed together
template <class T>
inline constexpr int64_t kPanel = 64 / sizeof(T);  // and columns

// Where element (row, k) of a product's left matrix lies.
//   Rows     at row * stride + k
//   Columns  at k * stride + row
//   Panels   as a right matrix would, in panels that are `stride` elements apart
enum class Left { Rows, Columns, Panels };

// What a product is added to: nothing, c, or c with each row times its factor.
enum class Onto { Nothing, Sum, ScaledSum };

template <class T>
struct AttentionKernels {
  // c[kStrip, kPanel] = onto + a * panel over k terms; factors are for ScaledSum.
  using Multiply = void (*)(T* c, int64_t c_stride, const T* a, int64_t a_stride, const T* panel,
                            int64_t k, const T* factors);
  Multiply panels, columns_onto_sum, rows_onto_sum, rows_onto_scaled_sum;
  // Columns [begin, end) of a row are whole panels.
  T (*largest)(const T* scores, int64_t begin, int64_t end);
  // scores = 2^(scores - most); their sum
  T (*exponentiate)(T* scores, int64_t begin, int64_t end, T most);
  // p = 2^(p - lse), ds = p * (ds - delta)
  void (*probabilities)(T* p, T* ds, int64_t begin, int64_t end, T lse, T delta);
};

// For AVX2 (or what the build is for), for AVX-512 where build and processor have it (else null),
// and the better of the two here.
template <class T>
const AttentionKernels<T>& attention_kernels_256();
template <class T>
const AttentionKernels<T>* attention_kernels_512();
template <class T>
const AttentionKernels<T>& best_attention_kernels();

// 2^x within 2e-7, for x up to 126; exactly 1 at 0, and 0 below -126.
// x = n + r with |r| <= 1/2; n is added to the exponent of the polynomial's value.
template <class V>
SXT_INLINE V vexp2(V x) {
  if constexpr (sizeof(ElementOf<V>) == sizeof(float)) {
    using Bits = BitsOf<V>;
    const V magic = splat<V>(12582912.0);  // 1.5 * 2^23: its last bits count whole numbers
    const V shifted = x + magic;
    const V r = x - (shifted - magic);
    const double p[] = {1.0,
                        0.6931471824645996,
                        0.24022646248340607,
                        0.05550328642129898,
                        0.009618489071726799,
                        0.0013399930903688073,
                        0.0001534581242594868};
    const V power = (V)((Bits)polynomial(r, p) + ((Bits)shifted << 23));
    return x < -126.0f ? V{} : power;
  } else {
    for (int64_t i = 0; i < kLanes<V>; ++i) x[i] = std::exp2(x[i]);
    return x;
  }
}

template <class V>
inline constexpr int kPanelVectors = 64 / sizeof(V);

// kRows of a strip.
template <class V, Left kLeft, Onto kOnto, int kRows, class T>
SXT_INLINE void multiply_rows(T* c, int64_t c_stride, const T* a, int64_t a_stride, const T* panel,
                              int64_t k, const T* factors) {
  constexpr int kVectors = kPanelVectors<V>;
  V sum[kRows][kVectors];  // in registers, once the loops over it are unrolled
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kOnto == Onto::Nothing)
        sum[i][j] = V{};
      else
        sum[i][j] = load<V>(c + i * c_stride + j * kLanes<V>);
      if constexpr (kOnto == Onto::ScaledSum) sum[i][j] = sum[i][j] * factors[i];
    }
  const int64_t row = kLeft == Left::Columns ? 1 : kLeft == Left::Panels ? kPanel<T> : a_stride;
  const int64_t next = kLeft == Left::Columns ? a_stride : 1;
  const int64_t block = kLeft == Left::Panels ? kPanel<T> : k;
  for (; k > 0; k -= block, a += a_stride) {
    const T* at = a;
    for (const T* end = panel + (k < block ? k : block) * kPanel<T>; panel < end;
         panel += kPanel<T>, at += next) {
      V right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) right[j] = load<V>(panel + j * kLanes<V>);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V left = at[i * row] - V{};
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) store<V>(c + i * c_stride + j * kLanes<V>, sum[i][j]);
}

// Sums of 12 registers: 6 rows of two, or 12 of one.
template <class V, Left kLeft, Onto kOnto>
void multiply_strip(ElementOf<V>* c, int64_t c_stride, const ElementOf<V>* a, int64_t a_stride,
                    const ElementOf<V>* panel, int64_t k, const ElementOf<V>* factors) {
  constexpr int kRows = 12 / kPanelVectors<V>;
  const int64_t row = kLeft == Left::Columns  ? 1
                      : kLeft == Left::Panels ? kPanel<ElementOf<V>>
                                              : a_stride;
  for (int i = 0; i < kStrip; i += kRows)
    multiply_rows<V, kLeft, kOnto, kRows>(c + i * c_stride, c_stride, a + i * row, a_stride, panel,
                                          k, kOnto == Onto::ScaledSum ? factors + i : nullptr);
}

// The vectors of a panel as one of half a panel.
template <class V, class F>
SXT_INLINE auto join_halves(const V (&vectors)[kPanelVectors<V>], F&& f) {
  if constexpr (kPanelVectors<V> == 2) {
    return f(vectors[0], vectors[1]);
  } else {
    using Half = VectorOf<ElementOf<V>>;
    Half halves[2];
    std::memcpy(halves, vectors, sizeof(halves));
    return f(halves[0], halves[1]);
  }
}

template <class V>
ElementOf<V> largest_score(const ElementOf<V>* scores, int64_t begin, int64_t end) {
  V most[kPanelVectors<V>];
  for (int j = 0; j < kPanelVectors<V>; ++j) most[j] = load<V>(scores + begin + j * kLanes<V>);
  for (int64_t i = begin + kPanel<ElementOf<V>>; i < end; i += kPanel<ElementOf<V>>)
    for (int j = 0; j < kPanelVectors<V>; ++j)
      most[j] = larger(load<V>(scores + i + j * kLanes<V>), most[j]);
  auto half = join_halves(most, [](auto a, auto b) { return larger(a, b); });
  for (int64_t width = kLanes<decltype(half)> / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane)
      half[lane] = half[lane] < half[lane + width] ? half[lane + width] : half[lane];
  return half[0];
}

template <class V>
ElementOf<V> exponentiate_scores(ElementOf<V>* scores, int64_t begin, int64_t end,
                                 ElementOf<V> most) {
  V sums[kPanelVectors<V>] = {};
  for (int64_t i = begin; i < end; i += kPanel<ElementOf<V>>)
    for (int j = 0; j < kPanelVectors<V>; ++j) {
      ElementOf<V>* at = scores + i + j * kLanes<V>;
      const V power = vexp2(load<V>(at) - most);
      store<V>(at, power);
      sums[j] += power;
    }
  auto half = join_halves(sums, [](auto a, auto b) { return a + b; });
  for (int64_t width = kLanes<decltype(half)> / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) half[lane] += half[lane + width];
  return half[0];
}

template <class V>
void score_gradients(ElementOf<V>* p, ElementOf<V>* ds, int64_t begin, int64_t end,
                     ElementOf<V> lse, ElementOf<V> delta) {
  for (int64_t i = begin; i < end; i += kLanes<V>) {
    const V probability = vexp2(load<V>(p + i) - lse);
    store<V>(p + i, probability);
    store<V>(ds + i, probability * (load<V>(ds + i) - delta));
  }
}

template <class V>
constexpr AttentionKernels<ElementOf<V>> make_attention_kernels() {
  return {&multiply_strip<V, Left::Panels, Onto::Nothing>,
          &multiply_strip<V, Left::Columns, Onto::Sum>,
          &multiply_strip<V, Left::Rows, Onto::Sum>,
          &multiply_strip<V, Left::Rows, Onto::ScaledSum>,
          &largest_score<V>,
          &exponentiate_scores<V>,
          &score_gradients<V>};
}

}  // namespace sextant::cpu

#pragma once
// Element functions on vectors of floats or doubles: exp, sigmoid, SiLU and GELU with their
// derivatives. Every lane goes through the same operations whatever instructions the file is
// compiled for, so the bits of an element do not depend on the machine nor on its place in a row.
// Everything is forced inline: files for different instruction sets may include this side by side.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/convert.h"
#if defined(__FMA__)
#include <immintrin.h>
#endif

#define SXT_INLINE [[gnu::always_inline]] static inline

namespace sextant::cpu {

using f32x8 = float __attribute__((vector_size(32)));
using u32x8 = uint32_t __attribute__((vector_size(32)));
using u16x8 = uint16_t __attribute__((vector_size(16)));
using f64x4 = double __attribute__((vector_size(32)));
#if defined(__AVX512F__)
using f32x16 = float __attribute__((vector_size(64)));
using u32x16 = uint32_t __attribute__((vector_size(64)));
using u16x16 = uint16_t __attribute__((vector_size(32)));
using f64x8 = double __attribute__((vector_size(64)));
using WideBits = u32x16;
using WideShortBits = u16x16;
#else
using WideBits = void;
using WideShortBits = void;
#endif

// The type in which elements are computed that memory holds as T: float for the narrow types.
template <class T>
using Compute = std::conditional_t<kIsNarrow<T>, float, T>;

// The vector in which elements of T are computed, and the element type of a vector.
template <class T>
struct Lanes {
  using Vector = f32x8;
};
template <>
struct Lanes<double> {
  using Vector = f64x4;
};
template <class T>
using VectorOf = typename Lanes<T>::Vector;
template <class V>
using ElementOf = std::remove_reference_t<decltype(V{}[0] + 0)>;
template <class V>
using BitsOf = std::conditional_t<sizeof(V) == 32, u32x8, WideBits>;  // of floats
template <class V>
using ShortBitsOf = std::conditional_t<sizeof(V) == 32, u16x8, WideShortBits>;  // of narrow types
template <class V>
inline constexpr int64_t kLanes = sizeof(V) / sizeof(ElementOf<V>);

template <class V>
SXT_INLINE V splat(double value) {
  return static_cast<ElementOf<V>>(value) - V{};  // not V{} + value, which loses the sign of -0
}

template <class V>
SXT_INLINE V load(const ElementOf<V>* from) {
  V out;
  std::memcpy(&out, from, sizeof(V));
  return out;
}

template <class V>
SXT_INLINE void store(ElementOf<V>* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

// An element of memory as the number to compute with, and back, rounded to nearest even.
template <class T>
SXT_INLINE Compute<T> value_of(T element) {
  if constexpr (kIsNarrow<T>)
    return widen(element);
  else
    return element;
}
template <class T>
SXT_INLINE T element_of(Compute<T> value) {
  if constexpr (kIsNarrow<T>)
    return round_nearest<T>(value);
  else
    return value;
}

// bf16 is the upper half of a float. NaN stays NaN: rounding its bits could make it infinity.
template <class V>
SXT_INLINE V load(const bf16* from) {
  ShortBitsOf<V> bits;
  std::memcpy(&bits, from, sizeof(bits));
  return (V)(__builtin_convertvector(bits, BitsOf<V>) << 16);
}
template <class V>
SXT_INLINE void store(bf16* to, V value) {
  const BitsOf<V> bits = (BitsOf<V>)value, upper = bits >> 16;
  const BitsOf<V> nearest = (bits + 0x7fffu + (upper & 1u)) >> 16;
  const BitsOf<V> code = value != value ? (upper & 0x8000u) | 0x7fc0u : nearest;
  const auto narrow = __builtin_convertvector(code, ShortBitsOf<V>);
  std::memcpy(to, &narrow, sizeof(narrow));
}

#if defined(__F16C__)
SXT_INLINE f32x8 widen_f16(__m128i bits) {
  return _mm256_cvtph_ps(bits);
}
SXT_INLINE __m128i round_f16(f32x8 value) {
  return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
}
#if defined(__AVX512F__)
SXT_INLINE f32x16 widen_f16(__m256i bits) {
  return _mm512_maskz_cvtph_ps(0xFFFF, bits);
}
SXT_INLINE __m256i round_f16(f32x16 value) {
  return _mm512_maskz_cvtps_ph(0xFFFF, value, _MM_FROUND_TO_NEAREST_INT);
}
#endif
template <class V>
SXT_INLINE V load(const f16* from) {
  decltype(round_f16(V{})) bits;
  std::memcpy(&bits, from, sizeof(bits));
  return widen_f16(bits);
}
template <class V>
SXT_INLINE void store(f16* to, V value) {
  const auto bits = round_f16(value);
  std::memcpy(to, &bits, sizeof(bits));
}
#else
template <class V>
SXT_INLINE V load(const f16* from) {
  V out{};
  for (int64_t i = 0; i < kLanes<V>; ++i) out[i] = widen(from[i]);
  return out;
}
template <class V>
SXT_INLINE void store(f16* to, V value) {
  for (int64_t i = 0; i < kLanes<V>; ++i) to[i] = round_nearest<f16>(value[i]);
}
#endif

// fp8 is only read: quantize writes it.
template <class V, class Fp8>
requires std::is_same_v<Fp8, f8e4m3> || std::is_same_v<Fp8, f8e5m2> SXT_INLINE V
load(const Fp8* from) {
  V out{};
  for (int64_t i = 0; i < kLanes<V>; ++i) out[i] = widen(from[i]);
  return out;
}

// The first `count` lanes, at most kLanes; the others are zero, or stay as they are in memory.
template <class V, class T>
SXT_INLINE V load_some(const T* from, int64_t count) {
  if (count >= kLanes<V>) return load<V>(from);
  V out{};
  for (int64_t i = 0; i < count; ++i) out[i] = value_of(from[i]);
  return out;
}

template <class V, class T>
SXT_INLINE void store_some(T* to, V value, int64_t count) {
  if (count >= kLanes<V>) return store<V>(to, value);
  for (int64_t i = 0; i < count; ++i) to[i] = element_of<T>(value[i]);
}

// a * b + c, rounded once.
#if defined(__AVX512F__)
SXT_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return _mm512_fmadd_ps(a, b, c);
}
SXT_INLINE f64x8 fma(f64x8 a, f64x8 b, f64x8 c) {
  return _mm512_fmadd_pd(a, b, c);
}
#endif
#if defined(__FMA__)
SXT_INLINE f32x8 fma(f32x8 a, f32x8 b, f32x8 c) {
  return _mm256_fmadd_ps(a, b, c);
}
SXT_INLINE f64x4 fma(f64x4 a, f64x4 b, f64x4 c) {
  return _mm256_fmadd_pd(a, b, c);
}
#else
template <class V>
SXT_INLINE V fma(V a, V b, V c) {
  for (int64_t i = 0; i < kLanes<V>; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
}
#endif

// The larger and the smaller, lane by lane. The second stays where one of them is a NaN: what the
// instructions do, and a comparison in either form.
#if defined(__AVX512F__)
SXT_INLINE f32x16 larger(f32x16 a, f32x16 b) {
  return _mm512_maskz_max_ps(0xFFFF, a, b);  // GCC 12 warns about its own _mm512_max_ps
}
SXT_INLINE f32x16 smaller(f32x16 a, f32x16 b) {
  return _mm512_maskz_min_ps(0xFFFF, a, b);
}
#endif
#if defined(__AVX__)
SXT_INLINE f32x8 larger(f32x8 a, f32x8 b) {
  return _mm256_max_ps(a, b);
}
SXT_INLINE f32x8 smaller(f32x8 a, f32x8 b) {
  return _mm256_min_ps(a, b);
}
#endif
template <class V>
SXT_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}
template <class V>
SXT_INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}

// A NaN in `value` stays.
template <class V>
SXT_INLINE V at_least(V value, double bound) {
  return larger(splat<V>(bound), value);
}
template <class V>
SXT_INLINE V at_most(V value, double bound) {
  return smaller(splat<V>(bound), value);
}

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
template <class V, int kCount>
SXT_INLINE V polynomial(V x, const double (&c)[kCount]) {
  V sum = splat<V>(c[kCount - 1]);
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) sum = fma(sum, x, splat<V>(c[i]));
  return sum;
}

// e^x within 1.1 ulp by x = n ln 2 + r, |r| <= ln 2 / 2, e^r = 1 + r + r^2 P(r).
// Anywhere: 0 and infinity where they are the nearest floats; 2^n in two factors, because n reaches
// from -150 (below the subnormals) to 128. Near: x is first brought within +-87, where one will do.
enum class Reach { Anywhere, Near };

template <Reach kReach, class V>
SXT_INLINE V exp_of_floats(V x) {
  using Bits = BitsOf<V>;
  x = at_most(at_least(x, kReach == Reach::Near ? -87.0 : -104.0),
              kReach == Reach::Near ? 87.0 : 89.0);
  const V magic = splat<V>(12582912.0);  // 1.5 * 2^23: its last bits count whole numbers
  const V shifted = fma(x, splat<V>(1.44269504), magic);
  const V n = shifted - magic;
  V r = fma(n, splat<V>(-0.693145751953125), x);  // exact: 15 bits of ln 2
  r = fma(n, splat<V>(-1.428606765330187e-06), r);
  const double p[] = {0.5, 0.16666576266288757, 0.041666556149721146, 0.008363178931176662,
                      0.0013926184037700295};
  const V e = fma(r * r, polynomial(r, p), r) + 1.0f;

  const Bits exponent = (Bits)shifted - (Bits)magic;
  if constexpr (kReach == Reach::Near) return e * (V)((exponent + 127u) << 23);
  const Bits half = (exponent >> 1) | (exponent & 0x80000000u);  // rounded down
  const V first = (V)((half + 127u) << 23);
  return e * first * (V)((exponent - half + 127u) << 23);
}

template <class V, Reach kReach = Reach::Anywhere>
SXT_INLINE V vexp(V x) {
  if constexpr (sizeof(ElementOf<V>) == sizeof(float)) {
    return exp_of_floats<kReach>(x);
  } else {
    for (int64_t i = 0; i < kLanes<V>; ++i) x[i] = std::exp(x[i]);
    return x;
  }
}
template <class V>
SXT_INLINE V vexp_near(V x) {
  return vexp<V, Reach::Near>(x);
}

// 1 / (1 + e^-x), never below 1e-38
template <class V>
SXT_INLINE V sigmoid(V x) {
  return splat<V>(1) / (vexp_near(-x) + splat<V>(1));
}

// x * sigmoid(x), and its derivative s + x s (1 - s).
template <class V>
SXT_INLINE V silu(V x) {
  return at_least(x, -87) * sigmoid(x);
}
template <class V>
SXT_INLINE V silu_grad(V x) {
  x = at_most(at_least(x, -87), 87);
  const V e = vexp_near(-x);
  const V s = splat<V>(1) / (e + splat<V>(1));
  return fma(x * s, e * s, s);
}

// GELU by tanh: 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class V>
SXT_INLINE V gelu_tanh_twice_u(V x) {
  const V slope =
      fma(x * x, splat<V>(2 * 0.7978845608028654 * 0.044715), splat<V>(2 * 0.7978845608028654));
  return x * slope;
}
template <class V>
SXT_INLINE V gelu_tanh(V x) {
  return at_least(x, -20) * sigmoid(gelu_tanh_twice_u(x));
}
// s + x s (1 - s) (2u)', where 1 - s = e s.
template <class V>
SXT_INLINE V gelu_tanh_grad(V x) {
  x = at_most(at_least(x, -10), 10);
  const V e = vexp_near(-gelu_tanh_twice_u(x));
  const V s = splat<V>(1) / (e + splat<V>(1));
  const V slope =
      fma(x * x, splat<V>(6 * 0.7978845608028654 * 0.044715), splat<V>(2 * 0.7978845608028654));
  return fma(x * s * slope, e * s, s);
}

// The normal distribution: below = P(X < x), density = its derivative.
template <class V>
struct Normal {
  V below, density;
};

// The tail beyond z = |x| is e^(-z^2 / 2) t Q(t) with t = 1 / (1 + 0.24 z), Q fitted to 4e-9. The
// part of z^2 that rounding loses is put back, or the tail would lose bits as z grows.
template <class V>
SXT_INLINE Normal<V> normal_of_floats(V x) {
  const V z = at_most(larger(x, -x), 13.0);
  const V square = z * z;
  const V lost = fma(z, z, -square);
  V bell = vexp_near(square * -0.5f);
  bell = fma(bell * -0.5f, lost, bell);
  const double q[] = {0.09574078023433685,  0.09588126838207245, 0.08874412626028061,
                      0.08860954642295837,  0.02581493929028511, 0.14561238884925842,
                      -0.14904648065567017, 0.20889915525913239, -0.12602627277374268,
                      0.025770563632249832};
  const V t = splat<V>(1) / fma(z, splat<V>(0.24), splat<V>(1));
  const V tail = bell * (t * polynomial(t, q));
  return {x < 0.0f ? tail : 1.0f - tail, bell * 0.3989422804014327f};
}

template <class V>
SXT_INLINE Normal<V> normal(V x) {
  if constexpr (sizeof(ElementOf<V>) == sizeof(float)) {
    return normal_of_floats(x);
  } else {
    V below{}, density{};
    for (int64_t i = 0; i < kLanes<V>; ++i) {
      below[i] = 0.5 * std::erfc(-x[i] * 0.7071067811865476);
      density[i] = 0.3989422804014327 * std::exp(-0.5 * x[i] * x[i]);
    }
    return {below, density};
  }
}

// GELU itself: x P(X < x), and its derivative P + x p.
template <class V>
SXT_INLINE V gelu_exact(V x) {
  return at_least(x, -40) * normal(x).below;
}
template <class V>
SXT_INLINE V gelu_exact_grad(V x) {
  x = at_most(at_least(x, -40), 40);
  const Normal<V> phi = normal(x);
  return fma(x, phi.density, phi.below);
}

}  // namespace sextant::cpu

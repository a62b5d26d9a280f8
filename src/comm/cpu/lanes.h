#pragma once
// SIMD load, reduction and store of each element type, eight or four elements at a time. Narrow
// types are computed in f32 and rounded as in convert.h.
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

#if defined(__AVX2__) && defined(__F16C__)
#define SXT_LANES_X86 1
#include <immintrin.h>
#else
#include "tensor/convert.h"
#endif

namespace sextant {

// Non-temporal store of 16 or 32 bytes to an aligned address (see streaming.h).
#if defined(SXT_LANES_X86)
template <class Vector, class T>
void stream_vector(T* to, const Vector& x) {
  if constexpr (sizeof x == 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)x);
  else
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)x);
}
#else
template <class Vector, class T>
void stream_vector(T* to, const Vector& x) {
  std::memcpy(to, &x, sizeof x);
}
#endif

template <class T>
struct PlainLanes {
  using Element = T;
  typedef T Vector __attribute__((vector_size(32)));
  static constexpr int kCount = 32 / sizeof(T);

  static Vector load(const T* from) {
    Vector x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static Vector finish(Vector x) { return x; }  // to the stored format
  static Vector add(Vector a, Vector b) { return a + b; }
};

// Adds as unsigned, where overflow wraps around.
template <class T, class Unsigned>
struct IntegerLanes : PlainLanes<T> {
  using Vector = typename PlainLanes<T>::Vector;
  typedef Unsigned Bits __attribute__((vector_size(32)));
  static Vector add(Vector a, Vector b) { return (Vector)((Bits)a + (Bits)b); }
};

typedef uint32_t WideBits __attribute__((vector_size(32)));
typedef uint16_t NarrowBits __attribute__((vector_size(16)));

// Compilers split __builtin_convertvector between these two into scalar steps.
#if defined(SXT_LANES_X86)
inline WideBits widened(NarrowBits x) {
  return (WideBits)_mm256_cvtepu16_epi32((__m128i)x);
}
inline NarrowBits narrowed(WideBits x) {  // the upper 16 bits are zero
  const __m256i pairs = _mm256_packus_epi32((__m256i)x, (__m256i)x);
  return (NarrowBits)_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0b1000));
}
#else
inline WideBits widened(NarrowBits x) {
  return __builtin_convertvector(x, WideBits);
}
inline NarrowBits narrowed(WideBits x) {
  return __builtin_convertvector(x, NarrowBits);
}
#endif

template <class T>
struct NarrowLanes {
  using Element = T;
  typedef float Vector __attribute__((vector_size(32)));
  using Bits = WideBits;
  using Codes = NarrowBits;
  static constexpr int kCount = 8;
  static Vector add(Vector a, Vector b) { return a + b; }
};

template <class T>
struct Lanes;
template <>
struct Lanes<float> : PlainLanes<float> {};
template <>
struct Lanes<double> : PlainLanes<double> {};
template <>
struct Lanes<int32_t> : IntegerLanes<int32_t, uint32_t> {};
template <>
struct Lanes<int64_t> : IntegerLanes<int64_t, uint64_t> {};

template <>
struct Lanes<bf16> : NarrowLanes<bf16> {
  static Vector load(const bf16* from) {
    Codes codes;
    std::memcpy(&codes, from, sizeof codes);
    return (Vector)(widened(codes) << 16);
  }
  static Codes finish(Vector x) {
    const Bits bits = (Bits)x;
    const Bits nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const Bits nan = (bits >> 16 & 0x8000) | 0x7fc0;
    const Bits is_nan = (Bits)(x != x);
    return narrowed((is_nan & nan) | (~is_nan & nearest));
  }
};

#if defined(SXT_LANES_X86)
template <>
struct Lanes<f16> : NarrowLanes<f16> {
  static Vector load(const f16* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  // The instruction keeps part of a NaN's payload; convert.h has one NaN per sign.
  static Codes finish(Vector x) {
    const Codes nearest = (Codes)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    const Codes is_nan = narrowed((Bits)(x != x) & 0xffff);
    return (is_nan & ((nearest & 0x8000) | 0x7e00)) | (~is_nan & nearest);
  }
};
#else
template <>
struct Lanes<f16> : NarrowLanes<f16> {
  static Vector load(const f16* from) {
    Vector x;
    for (int i = 0; i < kCount; ++i) x[i] = widen(from[i]);
    return x;
  }
  static Codes finish(Vector x) {
    Codes codes;
    for (int i = 0; i < kCount; ++i) codes[i] = round_nearest<f16>(x[i]).bits;
    return codes;
  }
};
#endif

}  // namespace sextant

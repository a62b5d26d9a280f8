#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/host_device.h"

namespace sextant {

// The result for a value beyond the largest finite one of a narrow type.
//   Infinity  infinity, or NaN where the type has none (f8e4m3)
//   Saturate  the largest finite value, for infinities too
// NaN stays NaN either way.
enum class Overflow { Infinity, Saturate };

// The format of a narrow type: sign, exponent, `kMantissa` bits. Codes ascend with the magnitude.
template <class Narrow>
struct Grid;
template <>
struct Grid<bf16> {
  using Bits = uint16_t;
  static constexpr int kMantissa = 7, kBias = 127;
  static constexpr uint32_t kLargest = 0x7f7f, kInfinity = 0x7f80, kNan = 0x7fc0;
  static constexpr Overflow kOverflow = Overflow::Infinity;  // what cast does
};
template <>
struct Grid<f16> {
  using Bits = uint16_t;
  static constexpr int kMantissa = 10, kBias = 15;
  static constexpr uint32_t kLargest = 0x7bff, kInfinity = 0x7c00, kNan = 0x7e00;
  static constexpr Overflow kOverflow = Overflow::Infinity;
};
template <>
struct Grid<f8e4m3> {
  using Bits = uint8_t;
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint32_t kLargest = 0x7e, kInfinity = 0x7f, kNan = 0x7f;  // no infinity
  static constexpr Overflow kOverflow = Overflow::Saturate;
};
template <>
struct Grid<f8e5m2> {
  using Bits = uint8_t;
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint32_t kLargest = 0x7b, kInfinity = 0x7c, kNan = 0x7e;
  static constexpr Overflow kOverflow = Overflow::Saturate;
};

template <>
struct Grid<float> {  // as seen from double
  using Bits = uint32_t;
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr uint32_t kLargest = 0x7f7fffff, kInfinity = 0x7f800000, kNan = 0x7fc00000;
  static constexpr Overflow kOverflow = Overflow::Infinity;
};

template <class T>
inline constexpr bool kIsNarrow = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                                  std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

namespace detail {

// The parts of a float or double: value = significand * 2^(exponent - kFraction).
template <class Wide>
struct WideParts {
  using Bits = std::conditional_t<std::is_same_v<Wide, double>, uint64_t, uint32_t>;
  static constexpr int kFraction = std::is_same_v<Wide, double> ? 52 : 23;
  static constexpr int kSignShift = std::is_same_v<Wide, double> ? 63 : 31;
  static constexpr int kWideBias = std::is_same_v<Wide, double> ? 1023 : 127;

  [[gnu::always_inline]] SXT_HOST_DEVICE explicit WideParts(Wide x) {
    const Bits bits = std::bit_cast<Bits>(x);
    magnitude = bits & ~(Bits{1} << kSignShift);
    negative = static_cast<uint32_t>(bits >> kSignShift);
    const int field = static_cast<int>(magnitude >> kFraction);
    exponent = (field == 0 ? 1 : field) - kWideBias;
    significand =
        (magnitude & ((Bits{1} << kFraction) - 1)) | (field == 0 ? Bits{0} : Bits{1} << kFraction);
  }
  [[gnu::always_inline]] SXT_HOST_DEVICE bool is_nan() const { return magnitude > kInfinityBits; }

  static constexpr Bits kInfinityBits =
      (Bits{1} << kSignShift) - (Bits{1} << kFraction);  // exponent field all ones

  Bits magnitude, significand;
  uint32_t negative;
  int exponent;
};

// Significand bits that the narrow type drops; more for its subnormals.
template <class Narrow, class Wide>
[[gnu::always_inline]] SXT_HOST_DEVICE inline int dropped_bits(const WideParts<Wide>& x) {
  constexpr int kLeast = 1 - Grid<Narrow>::kBias;
  const int below = x.exponent < kLeast ? kLeast - x.exponent : 0;
  return WideParts<Wide>::kFraction - Grid<Narrow>::kMantissa + below;
}

// The code for `units` ulps at the exponent of x; a carry moves correctly into the exponent.
template <class Narrow, class Wide>
[[gnu::always_inline]] SXT_HOST_DEVICE inline uint32_t code_of(const WideParts<Wide>& x,
                                                               uint32_t units) {
  constexpr int kLeast = 1 - Grid<Narrow>::kBias;
  constexpr int kMost = 2 * Grid<Narrow>::kBias + 2;  // certainly overflows, still fits in 32 bits
  const int above = std::clamp(x.exponent - kLeast, 0, kMost);
  return (static_cast<uint32_t>(above) << Grid<Narrow>::kMantissa) + units;
}

template <class Narrow>
[[gnu::always_inline]] SXT_HOST_DEVICE inline Narrow with_sign(uint32_t code, uint32_t negative) {
  constexpr int kSign = 8 * sizeof(Narrow) - 1;
  return std::bit_cast<Narrow>(static_cast<typename Grid<Narrow>::Bits>(code | negative << kSign));
}

}  // namespace detail

// Rounds to nearest, ties to even, without double rounding also from double. Forced inline, as all
// it calls: loops over it are vectorized, and sources for different instruction sets may include
// this side by side.
template <class Narrow, class Wide>
[[gnu::always_inline]] SXT_HOST_DEVICE inline Narrow round_nearest(
    Wide x, Overflow overflow = Grid<Narrow>::kOverflow) {
  using G = Grid<Narrow>;
  using Parts = detail::WideParts<Wide>;
  using Bits [[maybe_unused]] = typename Parts::Bits;
  const Parts parts(x);
  uint32_t code = 0;
  if constexpr (std::is_same_v<Narrow, bf16> && std::is_same_v<Wide, float>) {
    // Fast path of the most frequent conversion: same exponent range, so a shift is enough.
    code = (parts.magnitude + 0x7fff + (parts.magnitude >> 16 & 1)) >> 16;
  } else {
    // Beyond kFraction + 2 all is below half of the least subnormal.
    const int shift = std::min(detail::dropped_bits<Narrow>(parts), Parts::kFraction + 2);
    const Bits odd = (parts.significand >> shift) & 1;
    const Bits units = (parts.significand + (Bits{1} << (shift - 1)) - 1 + odd) >> shift;
    code = detail::code_of<Narrow>(parts, static_cast<uint32_t>(units));
  }
  if (code > G::kLargest) code = overflow == Overflow::Saturate ? G::kLargest : G::kInfinity;
  return detail::with_sign<Narrow>(parts.is_nan() ? G::kNan : code, parts.negative);
}

// Stochastic rounding to one of the two neighbours of x, with probability by distance: adds
// `random` below the last place and truncates. With 32 bits of resolution the mean over all draws
// is exactly x from f32 to bf16, f16 and the normal range of f8 (bf16 uses the upper 16 bits only).
// NaN, infinity and overflow are handled as in round_nearest.
template <class Narrow, class Wide>
SXT_HOST_DEVICE Narrow round_stochastic(Wide x, uint32_t random,
                                        Overflow overflow = Grid<Narrow>::kOverflow) {
  using G = Grid<Narrow>;
  using Parts = detail::WideParts<Wide>;
  const Parts parts(x);
  const int shift = detail::dropped_bits<Narrow>(parts);
  uint64_t significand = parts.significand, units = 0;
  if (shift <= 32) {
    units = (significand + (uint64_t{random} >> (32 - shift))) >> shift;
  } else {
    const int fine = shift - 32;  // bits below the resolution of `random`
    significand = fine < 64 ? significand >> fine : 0;
    units = (significand + random) >> 32;
  }
  const uint32_t code = detail::code_of<Narrow>(parts, static_cast<uint32_t>(units));
  // Infinity and NaN have the largest exponent, so they are handled here too.
  if (code > G::kLargest) return round_nearest<Narrow>(x, overflow);
  return detail::with_sign<Narrow>(code, parts.negative);
}

// Exact.
template <class Narrow>
[[gnu::always_inline]] SXT_HOST_DEVICE inline float widen(Narrow x) {
  using G = Grid<Narrow>;
  constexpr int kSign = 8 * sizeof(Narrow) - 1;
  const uint32_t negative = static_cast<uint32_t>(x.bits) >> kSign;
  const uint32_t code = x.bits & ((uint32_t{1} << kSign) - 1);
  // Shifts exponent and mantissa to a float's, then scales by the bias difference; exact for
  // subnormals too.
  const float scale = std::bit_cast<float>(uint32_t{254 - G::kBias} << 23);
  const float finite = std::bit_cast<float>(code << (23 - G::kMantissa)) * scale;
  uint32_t bits = std::bit_cast<uint32_t>(finite);
  if (code >= G::kInfinity)
    bits = code == G::kInfinity && G::kInfinity != G::kNan ? 0x7f800000 : 0x7fc00000;
  return std::bit_cast<float>(bits | negative << 31);
}

// bf16 is the upper half of a float: faster than the general case, and NaN keeps its payload.
template <>
[[gnu::always_inline]] SXT_HOST_DEVICE inline float widen<bf16>(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// Calls f(T{}) with the C++ type of a floating dtype.
template <class F>
void with_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F64:
      return f(double{});
    case DType::F32:
      return f(float{});
    case DType::BF16:
      return f(bf16{});
    case DType::F16:
      return f(f16{});
    case DType::F8E4M3:
      return f(f8e4m3{});
    case DType::F8E5M2:
      return f(f8e5m2{});
    default:
      SXT_FAIL(Usage, name_of(dtype), " is not a floating type");
  }
}

// Converts count elements between floating types: nearest even, overflow by Grid::kOverflow.
void convert(DType to_type, std::byte* to, DType from_type, const std::byte* from, int64_t count);

}  // namespace sextant

#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"

namespace sextant {

// What becomes of a value beyond the largest finite one of a narrow type.
//   Infinity  infinity, or NaN where the type has none (f8e4m3)
//   Saturate  the largest finite value, for infinities too
// NaN stays NaN either way.
enum class Overflow { Infinity, Saturate };

// The grid of a narrow type: sign, exponent field, `kMantissa` bits. Codes count up with the value.
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

  explicit WideParts(Wide x) {
    const Bits bits = std::bit_cast<Bits>(x);
    magnitude = bits & ~(Bits{1} << kSignShift);
    negative = static_cast<uint32_t>(bits >> kSignShift);
    const int field = static_cast<int>(magnitude >> kFraction);
    exponent = (field == 0 ? 1 : field) - kWideBias;
    significand =
        (magnitude & ((Bits{1} << kFraction) - 1)) | (field == 0 ? Bits{0} : Bits{1} << kFraction);
  }
  bool is_nan() const { return magnitude > kInfinityBits; }

  static constexpr Bits kInfinityBits =
      (Bits{1} << kSignShift) - (Bits{1} << kFraction);  // exponent field all ones

  Bits magnitude, significand;
  uint32_t negative;
  int exponent;
};

// Bits of the significand that the grid has no place for; more below its normal range.
template <class Narrow, class Wide>
int dropped_bits(const WideParts<Wide>& x) {
  constexpr int kLeast = 1 - Grid<Narrow>::kBias;
  const int below = x.exponent < kLeast ? kLeast - x.exponent : 0;
  return WideParts<Wide>::kFraction - Grid<Narrow>::kMantissa + below;
}

// The code of `units` last places at the exponent of x; a carry out of them lands where it should.
template <class Narrow, class Wide>
uint32_t code_of(const WideParts<Wide>& x, uint32_t units) {
  constexpr int kLeast = 1 - Grid<Narrow>::kBias;
  constexpr int kMost = 2 * Grid<Narrow>::kBias + 2;  // overflows for sure, still fits in 32 bits
  const int above = std::clamp(x.exponent - kLeast, 0, kMost);
  return (static_cast<uint32_t>(above) << Grid<Narrow>::kMantissa) + units;
}

template <class Narrow>
Narrow with_sign(uint32_t code, uint32_t negative) {
  constexpr int kSign = 8 * sizeof(Narrow) - 1;
  return std::bit_cast<Narrow>(static_cast<typename Grid<Narrow>::Bits>(code | negative << kSign));
}

}  // namespace detail

// The nearest value of the grid, ties to even; exact, also from double. Inline, so that loops over
// it become vector instructions.
template <class Narrow, class Wide>
[[gnu::always_inline]] inline Narrow round_nearest(Wide x,
                                                   Overflow overflow = Grid<Narrow>::kOverflow) {
  using G = Grid<Narrow>;
  using Parts = detail::WideParts<Wide>;
  using Bits [[maybe_unused]] = typename Parts::Bits;
  const Parts parts(x);
  uint32_t code = 0;
  if constexpr (std::is_same_v<Narrow, bf16> && std::is_same_v<Wide, float>) {
    // The same exponents: a shift of the whole pattern, and the hottest of all conversions.
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

// One of the two values of the grid around x, the upper with the probability of x's place between
// them: `random` is added below the last place and the rest cut off. It resolves 32 bits there, so
// from f32 to bf16, f16 and the normal range of the others the mean over all draws is x exactly
// (bf16 uses the upper 16 bits only). NaN, infinity and what would overflow go by round_nearest.
template <class Narrow, class Wide>
Narrow round_stochastic(Wide x, uint32_t random, Overflow overflow = Grid<Narrow>::kOverflow) {
  using G = Grid<Narrow>;
  using Parts = detail::WideParts<Wide>;
  const Parts parts(x);
  const int shift = detail::dropped_bits<Narrow>(parts);
  uint64_t significand = parts.significand, units = 0;
  if (shift <= 32) {
    units = (significand + (uint64_t{random} >> (32 - shift))) >> shift;
  } else {
    const int fine = shift - 32;  // bits below the resolution of the draw
    significand = fine < 64 ? significand >> fine : 0;
    units = (significand + random) >> 32;
  }
  const uint32_t code = detail::code_of<Narrow>(parts, static_cast<uint32_t>(units));
  // Infinity and NaN have the largest exponent, so they land here too.
  if (code > G::kLargest) return round_nearest<Narrow>(x, overflow);
  return detail::with_sign<Narrow>(code, parts.negative);
}

// Exact.
template <class Narrow>
float widen(Narrow x) {
  using G = Grid<Narrow>;
  constexpr int kSign = 8 * sizeof(Narrow) - 1;
  const uint32_t negative = static_cast<uint32_t>(x.bits) >> kSign;
  const uint32_t code = x.bits & ((uint32_t{1} << kSign) - 1);
  // Exponent and mantissa as a float's, then the difference of the biases; right for subnormals.
  const float scale = std::bit_cast<float>(uint32_t{254 - G::kBias} << 23);
  const float finite = std::bit_cast<float>(code << (23 - G::kMantissa)) * scale;
  uint32_t bits = std::bit_cast<uint32_t>(finite);
  if (code >= G::kInfinity)
    bits = code == G::kInfinity && G::kInfinity != G::kNan ? 0x7f800000 : 0x7fc00000;
  return std::bit_cast<float>(bits | negative << 31);
}

// bf16 is the upper half of a float: shorter than the general way, and NaN keeps its payload.
template <>
inline float widen<bf16>(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// f(T{}) for the floating type of that name.
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

// count elements of one floating type to another, nearest even, overflow as the grid of the type
// says.
void convert(DType to_type, std::byte* to, DType from_type, const std::byte* from, int64_t count);

}  // namespace sextant

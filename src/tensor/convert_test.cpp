#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Narrow>
class Convert : public testing::Test {};
using NarrowTypes = testing::Types<bf16, f16, f8e4m3, f8e5m2>;

struct NarrowName {
  template <class T>
  static std::string GetName(int) {
    return std::string(name_of(kDTypeOf<T>));
  }
};
TYPED_TEST_SUITE(Convert, NarrowTypes, NarrowName);

// The format as its specification words it, apart from the code under test.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
};
template <class Narrow>
Format format_of() {
  if constexpr (std::is_same_v<Narrow, bf16>) return {8, 7, 127, true};
  if constexpr (std::is_same_v<Narrow, f16>) return {5, 10, 15, true};
  if constexpr (std::is_same_v<Narrow, f8e4m3>) return {4, 3, 7, false};
  if constexpr (std::is_same_v<Narrow, f8e5m2>) return {5, 2, 15, true};
}

double value_of(const Format& f, uint32_t code) {
  const int sign_bit = f.exponent_bits + f.mantissa_bits;
  const double sign = (code >> sign_bit & 1) != 0 ? -1 : 1;
  const uint32_t ones = (1u << f.exponent_bits) - 1, all = (1u << f.mantissa_bits) - 1;
  const uint32_t exponent = code >> f.mantissa_bits & ones, mantissa = code & all;
  if (f.has_infinity && exponent == ones) return mantissa == 0 ? sign * kInfinity : NAN;
  if (!f.has_infinity && exponent == ones && mantissa == all) return NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp((1u << f.mantissa_bits) + mantissa,
                           static_cast<int>(exponent) - f.bias - f.mantissa_bits);
}

// All finite values from 0 up, by code.
std::vector<double> grid_of(const Format& f) {
  std::vector<double> grid;
  for (uint32_t code = 0; code < 1u << (f.exponent_bits + f.mantissa_bits); ++code)
    if (std::isfinite(value_of(f, code))) grid.push_back(value_of(f, code));
  return grid;
}

// Slow and plain: the grid value with the least distance, the even code of two at one distance.
double nearest(const std::vector<double>& grid, double x, Overflow overflow, bool has_infinity) {
  if (std::isnan(x)) return NAN;
  const double magnitude = std::abs(x);
  const double last_step = grid.back() - grid[grid.size() - 2];
  double result = 0;
  const double edge = grid.back() + last_step / 2;
  const bool largest_is_even = grid.size() % 2 == 1;
  if (magnitude > edge || (magnitude == edge && !largest_is_even)) {
    if (overflow == Overflow::Infinity && !has_infinity) return NAN;
    result = overflow == Overflow::Saturate ? grid.back() : kInfinity;
  } else if (magnitude >= grid.back()) {
    result = grid.back();
  } else {
    const auto upper = std::upper_bound(grid.begin(), grid.end(), magnitude);
    const double above = *upper - magnitude, below = magnitude - *(upper - 1);
    const bool lower_is_even = (upper - 1 - grid.begin()) % 2 == 0;
    result = below < above || (below == above && lower_is_even) ? *(upper - 1) : *upper;
  }
  return std::copysign(result, x);
}

void expect_same(double got, double wanted, double x) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(got)) << x << " became " << got << ", not NaN";
  } else {
    EXPECT_EQ(got, wanted) << x;
    EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << x;
  }
}

TYPED_TEST(Convert, WidensEveryCodeExactlyAndRoundTrips) {
  using Bits = typename Grid<TypeParam>::Bits;
  const Format f = format_of<TypeParam>();
  for (uint32_t code = 0; code < 1u << (8 * sizeof(Bits)); ++code) {
    const TypeParam x{static_cast<Bits>(code)};
    const double wanted = value_of(f, code);
    expect_same(widen(x), wanted, wanted);
    for (const Overflow overflow : {Overflow::Infinity, Overflow::Saturate}) {
      if (std::isinf(wanted) && overflow == Overflow::Saturate) continue;
      const TypeParam from_float = round_nearest<TypeParam>(widen(x), overflow);
      const TypeParam from_double =
          round_nearest<TypeParam>(static_cast<double>(widen(x)), overflow);
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(widen(from_float)) && std::isnan(widen(from_double))) << code;
      } else {
        EXPECT_EQ(from_float.bits, code);
        EXPECT_EQ(from_double.bits, code);
        EXPECT_EQ(round_stochastic<TypeParam>(widen(x), 0xffffffff).bits,
                  round_nearest<TypeParam>(widen(x)).bits);
      }
    }
  }
}

template <class Narrow, class Wide>
void expect_nearest(const std::vector<double>& grid, Wide x) {
  for (const Overflow overflow : {Overflow::Infinity, Overflow::Saturate})
    expect_same(widen(round_nearest<Narrow>(x, overflow)),
                nearest(grid, x, overflow, format_of<Narrow>().has_infinity), x);
}

TYPED_TEST(Convert, RoundsRandomValuesToTheNearest) {
  const std::vector<double> grid = grid_of(format_of<TypeParam>());
  const Random random(1, "patterns");
  for (uint64_t i = 0; i < 100000; ++i) {
    expect_nearest<TypeParam>(grid, std::bit_cast<float>(random.bits(i)));
    const uint64_t wide = uint64_t{random.bits(i, 1)} << 32 | random.bits(i, 2);
    expect_nearest<TypeParam>(grid, std::bit_cast<double>(wide));
    // Most doubles are far out of range: also some of the grid's own sizes.
    const double scale = grid[i % grid.size()];
    expect_nearest<TypeParam>(grid, scale * (1 + random.normal(i) * 1e-3));
    expect_nearest<TypeParam>(grid, static_cast<float>(-scale * (1 + random.normal(i) * 0.1)));
  }
}

TYPED_TEST(Convert, RoundsMidpointsToEvenAndTheirNeighboursAway) {
  const std::vector<double> grid = grid_of(format_of<TypeParam>());
  for (size_t i = 0; i + 1 < grid.size(); ++i) {
    const double middle = (grid[i] + grid[i + 1]) / 2;
    const auto narrow = static_cast<float>(middle);
    ASSERT_EQ(narrow, middle);
    for (const float x : {narrow, std::nextafter(narrow, 0.0F), std::nextafter(narrow, INFINITY)}) {
      expect_nearest<TypeParam>(grid, x);
      expect_nearest<TypeParam>(grid, -x);
    }
    // Through f32 these two would first fall onto the midpoint, and then to the wrong side.
    expect_nearest<TypeParam>(grid, std::nextafter(middle, 0.0));
    expect_nearest<TypeParam>(grid, std::nextafter(middle, kInfinity));
  }
  const double edge = grid.back() + (grid.back() - grid[grid.size() - 2]) / 2;
  for (const double x : {edge, std::nextafter(edge, 0.0), 2 * edge, kInfinity, -kInfinity})
    expect_nearest<TypeParam>(grid, x);
  expect_nearest<TypeParam>(grid, std::numeric_limits<float>::quiet_NaN());
  expect_nearest<TypeParam>(grid, std::numeric_limits<double>::denorm_min());
  expect_nearest<TypeParam>(grid, -0.0F);
}

TEST(ConvertKnown, LimitsOfTheFp8Types) {
  EXPECT_EQ(widen(f8e4m3{0x7e}), 448);
  EXPECT_TRUE(std::isnan(widen(f8e4m3{0x7f})) && std::isnan(widen(f8e4m3{0xff})));
  EXPECT_EQ(widen(f8e4m3{0x08}), 0x1p-6F);
  EXPECT_EQ(widen(f8e4m3{0x01}), 0x1p-9F);
  EXPECT_EQ(widen(f8e5m2{0x7b}), 57344);
  EXPECT_EQ(widen(f8e5m2{0x7c}), std::numeric_limits<float>::infinity());
  EXPECT_EQ(widen(f8e5m2{0x04}), 0x1p-14F);
  EXPECT_EQ(widen(f8e5m2{0x01}), 0x1p-16F);
  EXPECT_EQ(round_nearest<f8e4m3>(1e9F).bits, 0x7e);
  EXPECT_EQ(round_nearest<f8e4m3>(1e9F, Overflow::Infinity).bits, 0x7f);
  EXPECT_EQ(round_nearest<f16>(65520.0F).bits, 0x7c00);
  EXPECT_EQ(round_nearest<f16>(65519.9F).bits, 0x7bff);
}

// Draws that differ in the dropped bits only, each once: the mean is x to the last bit.
template <class Narrow>
void expect_unbiased(float x, int dropped_bits) {
  double sum = 0;
  const uint64_t draws = uint64_t{1} << dropped_bits;
  for (uint64_t draw = 0; draw < draws; ++draw)
    sum += widen(round_stochastic<Narrow>(x, static_cast<uint32_t>(draw << (32 - dropped_bits))));
  EXPECT_EQ(sum / static_cast<double>(draws), x) << x;
}

TEST(ConvertStochastic, MeanOverAllDrawsIsTheValueItself) {
  const Random random(2, "values");
  for (uint64_t i = 0; i < 40; ++i)
    expect_unbiased<bf16>(static_cast<float>(random.normal(i) * std::pow(10.0, i % 20)), 16);
  for (const float x : {1e-40F, -3e-41F, 0.0F, 1.0F, -0x1.fffffep-1F, 0x1.fdfffep127F})
    expect_unbiased<bf16>(x, 16);
  for (uint64_t i = 0; i < 40; ++i) expect_unbiased<f16>(static_cast<float>(random.normal(i)), 13);
  expect_unbiased<f8e4m3>(1.23456789F, 20);
  expect_unbiased<f8e4m3>(-0x1.234p-8F, 22);  // below the normals: two bits more are dropped
  expect_unbiased<f8e5m2>(-5.4321F, 21);
}

TEST(ConvertStochastic, LeavesNanInfinityAndOverflowToNearest) {
  for (const uint32_t random : {0u, 0xffffu, 0x80000000u, 0xffffffffu}) {
    // 7fffffff + ffff would wrap to -0, 7f800001 cut off would be infinity.
    for (const uint32_t bits : {0x7fffffffu, 0x7f800001u, 0xffffffffu, 0xff800001u}) {
      const float x = std::bit_cast<float>(bits);
      EXPECT_TRUE(std::isnan(widen(round_stochastic<bf16>(x, random)))) << bits;
      EXPECT_TRUE(std::isnan(widen(round_stochastic<f8e4m3>(x, random)))) << bits;
    }
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(round_stochastic<bf16>(infinity, random).bits, 0x7f80);
    EXPECT_EQ(round_stochastic<bf16>(-infinity, random).bits, 0xff80);
    // Past the middle between the largest bf16 and where infinity begins, and before it.
    EXPECT_EQ(round_stochastic<bf16>(std::bit_cast<float>(0x7f7f9000u), 0xffff0000).bits, 0x7f80);
    EXPECT_EQ(round_stochastic<bf16>(std::bit_cast<float>(0x7f7f7000u), 0xffff0000).bits, 0x7f7f);
    EXPECT_EQ(round_stochastic<f8e4m3>(1e9F, random).bits, 0x7e);
  }
}

TEST(ConvertStochastic, DoubleToFloatTakesANeighbour) {
  const double x = 1 + 0x1p-25;  // a quarter of the way from 1 to the next float
  EXPECT_EQ(round_stochastic<float>(x, 0), 1);
  EXPECT_EQ(round_stochastic<float>(x, 0xbfffffffu), 1);
  EXPECT_EQ(round_stochastic<float>(x, 0xc0000000u), 1 + 0x1p-23F);
  EXPECT_EQ(round_stochastic<float>(-x, 0xffffffffu), -1 - 0x1p-23F);
  EXPECT_EQ(round_stochastic<float>(1e300, 7), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_stochastic<float>(1e-300, 7), 0);
}

TEST(ConvertBulk, AgreesWithTheScalarsFromUnalignedBytes) {
  std::vector<std::byte> from(1 + 4 * 1000), to(1 + 2 * 1000), back(1 + 8 * 1000);
  const Random random(4, "bulk");
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto x = static_cast<float>(random.normal(i));
    std::memcpy(from.data() + 1 + 4 * i, &x, 4);
  }
  convert(DType::BF16, to.data() + 1, DType::F32, from.data() + 1, 1000);
  convert(DType::F64, back.data() + 1, DType::BF16, to.data() + 1, 1000);
  for (uint64_t i = 0; i < 1000; ++i) {
    double got = 0;
    std::memcpy(&got, back.data() + 1 + 8 * i, 8);
    EXPECT_EQ(got, widen(round_nearest<bf16>(static_cast<float>(random.normal(i)))));
  }
  EXPECT_ERROR(convert(DType::I32, to.data(), DType::F32, from.data(), 1), Usage,
               "i32 is not a floating type");
}

}  // namespace
}  // namespace sextant

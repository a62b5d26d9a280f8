#include "ops/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sextant::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The largest error of f over [low, high], as a share of the value plus `floor`.
template <class F, class Reference>
double worst_error(double low, double high, double floor, F f, Reference reference) {
  double worst = 0;
  constexpr int kSteps = 40000;
  for (int step = 0; step < kSteps; step += 8) {
    f32x8 x;
    for (int i = 0; i < 8; ++i)
      x[i] = static_cast<float>(low + (high - low) * (step + i) / (kSteps - 1));
    const f32x8 y = f(x);
    for (int i = 0; i < 8; ++i) {
      const double right = reference(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - right) / (std::abs(right) + floor));
    }
  }
  return worst;
}

template <class F>
float at(F f, float x) {
  return f(splat<f32x8>(x))[3];
}

// In f64, whose functions are the standard library's.
template <class F>
double exact(F f, double x) {
  return f(splat<f64x4>(x))[1];
}

const auto kExp = [](auto x) { return vexp(x); };
const auto kSigmoid = [](auto x) { return sigmoid(x); };
const auto kSilu = [](auto x) { return silu(x); };
const auto kSiluGrad = [](auto x) { return silu_grad(x); };
const auto kGeluTanh = [](auto x) { return gelu_tanh(x); };
const auto kGeluTanhGrad = [](auto x) { return gelu_tanh_grad(x); };
const auto kGeluExact = [](auto x) { return gelu_exact(x); };
const auto kGeluExactGrad = [](auto x) { return gelu_exact_grad(x); };

TEST(VectorMath, ExpIsWithinOneAndAHalfUnitsInTheLastPlace) {
  const auto reference = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_error(-87, 88.7, 0, kExp, reference), 1.3e-7);
  EXPECT_LT(worst_error(-1, 1, 0, kExp, reference), 1.3e-7);
  // Subnormals: half of the smallest one.
  EXPECT_LT(worst_error(-103.9, -87.3, 1.18e-38, kExp, reference), 2e-7);
}

TEST(VectorMath, ExpKeepsItsEnds) {
  EXPECT_EQ(at(kExp, 0.0f), 1.0f);
  EXPECT_EQ(at(kExp, -kInf), 0.0f);
  EXPECT_EQ(at(kExp, kInf), kInf);
  EXPECT_EQ(at(kExp, 3e38f), kInf);
  EXPECT_EQ(at(kExp, -3e38f), 0.0f);
  EXPECT_TRUE(std::isnan(at(kExp, kNan)));
}

TEST(VectorMath, SigmoidAndSiluAgreeWithDouble) {
  EXPECT_LT(worst_error(-80, 80, 0, kSigmoid, [](double x) { return exact(kSigmoid, x); }), 4e-7);
  EXPECT_LT(worst_error(-80, 80, 0, kSilu, [](double x) { return exact(kSilu, x); }), 4e-7);
  // A derivative is a difference near its zero: its error is one of values near 1.
  EXPECT_LT(worst_error(-20, 20, 1, kSiluGrad, [](double x) { return exact(kSiluGrad, x); }),
            1.5e-7);
}

TEST(VectorMath, SiluGradIsTheSlopeOfSilu) {
  for (double x = -6; x <= 6; x += 0.37)
    EXPECT_NEAR(exact(kSiluGrad, x), (exact(kSilu, x + 1e-5) - exact(kSilu, x - 1e-5)) / 2e-5,
                1e-9);
}

TEST(VectorMath, GeluByTanhIsItsFormula) {
  const auto formula = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_NEAR(exact(kGeluTanh, 1.0), formula(1.0), 1e-15);
  EXPECT_NEAR(exact(kGeluTanh, -0.7), formula(-0.7), 1e-15);
  EXPECT_LT(worst_error(-2, 12, 0, kGeluTanh, formula), 4e-7);
  // Far left the value is e^(2u), whose error grows with u.
  EXPECT_LT(worst_error(-8, -2, 1e-5, kGeluTanh, [](double x) { return exact(kGeluTanh, x); }),
            2e-6);
}

TEST(VectorMath, ExactGeluIsItsFormula) {
  const auto formula = [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LT(worst_error(-12, 12, 0, kGeluExact, formula), 4e-7);
}

TEST(VectorMath, GeluGradIsTheSlopeOfGelu) {
  for (double x = -5; x <= 5; x += 0.31) {
    EXPECT_NEAR(exact(kGeluTanhGrad, x),
                (exact(kGeluTanh, x + 1e-5) - exact(kGeluTanh, x - 1e-5)) / 2e-5, 1e-9);
    EXPECT_NEAR(exact(kGeluExactGrad, x),
                (exact(kGeluExact, x + 1e-5) - exact(kGeluExact, x - 1e-5)) / 2e-5, 1e-9);
  }
  EXPECT_LT(worst_error(-9, 9, 1, kGeluTanhGrad, [](double x) { return exact(kGeluTanhGrad, x); }),
            1.5e-7);
  EXPECT_LT(
      worst_error(-9, 9, 1, kGeluExactGrad, [](double x) { return exact(kGeluExactGrad, x); }),
      1.5e-7);
}

TEST(VectorMath, ActivationsKeepTheirEnds) {
  for (const float big : {30.0f, 1e4f, 3e38f, kInf}) {
    EXPECT_EQ(at(kSilu, big), big);
    EXPECT_EQ(at(kGeluTanh, big), big);
    EXPECT_EQ(at(kGeluExact, big), big);
    EXPECT_EQ(at(kSiluGrad, big), 1.0f);
    EXPECT_EQ(at(kGeluTanhGrad, big), 1.0f);
    EXPECT_EQ(at(kGeluExactGrad, big), 1.0f);
  }
  for (const float big : {-1e4f, -3e38f, -kInf}) {
    EXPECT_NEAR(at(kSilu, big), 0.0f, 1e-30);
    EXPECT_NEAR(at(kGeluTanh, big), 0.0f, 1e-30);
    EXPECT_NEAR(at(kGeluExact, big), 0.0f, 1e-30);
    EXPECT_NEAR(at(kSiluGrad, big), 0.0f, 1e-30);
    EXPECT_NEAR(at(kGeluTanhGrad, big), 0.0f, 1e-30);
    EXPECT_NEAR(at(kGeluExactGrad, big), 0.0f, 1e-30);
  }
  EXPECT_TRUE(std::isnan(at(kSilu, kNan)));
  EXPECT_TRUE(std::isnan(at(kSiluGrad, kNan)));
  EXPECT_TRUE(std::isnan(at(kGeluTanh, kNan)));
  EXPECT_TRUE(std::isnan(at(kGeluTanhGrad, kNan)));
  EXPECT_TRUE(std::isnan(at(kGeluExact, kNan)));
  EXPECT_TRUE(std::isnan(at(kGeluExactGrad, kNan)));
}

TEST(VectorMath, PartsOfAVectorLeaveTheRestAlone) {
  float memory[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const f32x8 three = load_some<f32x8>(memory + 1, 3);
  EXPECT_EQ(three[2], 3.0f);
  EXPECT_EQ(three[3], 0.0f);
  store_some(memory, splat<f32x8>(9), 2);
  EXPECT_EQ(memory[1], 9.0f);
  EXPECT_EQ(memory[2], 2.0f);
}

}  // namespace
}  // namespace sextant::cpu

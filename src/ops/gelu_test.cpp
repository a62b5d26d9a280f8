#include "ops/gelu.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

constexpr Activation kForms[] = {Activation::GeluTanh, Activation::GeluExact};

double formula(double x, Activation form) {
  if (form == Activation::GeluExact) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, KnownValues) {
  Workbench bench;
  const Tensor x = bench.make<float>({5}, {0, 1, -1, 30, -30});
  Tensor y = bench.empty<float>({5});
  gelu(bench.stream(), y, x, Activation::GeluExact);  // x times the normal distribution function
  expect_close(bench.read<float>(y), std::vector<double>{0, 0.8413447461, -0.1586552539, 30, 0},
               1e-8);
  gelu(bench.stream(), y, x, Activation::GeluTanh);
  expect_close(bench.read<float>(y), std::vector<double>{0, 0.8411919906, -0.1588080094, 30, 0},
               1e-8);
}

TEST(Gelu, FollowsTheFormulasInBothTypes) {
  Workbench bench(2);
  for (const Activation form : kForms) {
    std::vector<double> wanted;
    std::vector<float> values;
    for (int i = -20000; i <= 20000; ++i) {
      values.push_back(static_cast<float>(i) * 0.0005F);
      wanted.push_back(formula(values.back(), form));
    }
    const auto count = static_cast<int64_t>(values.size());
    const Tensor x = bench.make<float>({count}, values);
    const Tensor wide =
        bench.make<double>({count}, std::vector<double>(values.begin(), values.end()));
    Tensor y = bench.empty<float>({count}), wide_y = bench.empty<double>({count});
    gelu(bench.stream(), y, x, form);
    gelu(bench.stream(), wide_y, wide, form);
    const std::vector<float> got = bench.read<float>(y);
    const std::vector<double> wide_got = bench.read<double>(wide_y);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], 4e-7 * std::max(1.0, std::abs(wanted[i]))) << values[i];
      EXPECT_NEAR(wide_got[i], wanted[i], 1e-14) << values[i];
    }
  }
}

TEST(Gelu, GradientIsThatOfFiniteDifferences) {
  for (const Activation form : kForms) {
    Workbench bench;
    Tensor x = bench.random<double>({3, 7}, "x", 2);
    const Tensor dy = bench.random<double>({3, 7}, "dy");
    Tensor y = bench.empty<double>({3, 7}), dx = bench.empty<double>({3, 7});
    gelu_backward(bench.stream(), dx, dy, x, form);
    expect_gradient(bench.stream(), x, dx, "x", [&] {
      gelu(bench.stream(), y, x, form);
      return dot(bench.stream(), y, dy);
    });
    const Tensor x32 = bench.random<float>({3, 7}, "x", 2),
                 dy32 = bench.random<float>({3, 7}, "dy");
    Tensor dx32 = bench.empty<float>({3, 7});
    gelu_backward(bench.stream(), dx32, dy32, x32, form);
    expect_close(bench.read<float>(dx32), bench.read<double>(dx), 1e-6);
  }
}

TEST(Gelu, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor x = bench.random<float>({91, 997}, "x", 2),
                 dy = bench.random<float>({91, 997}, "dy");
    Tensor y = bench.empty<float>({91, 997}), dx = bench.empty<float>({91, 997});
    gelu(bench.stream(), y, x, Activation::GeluTanh);
    gelu_backward(bench.stream(), dx, dy, x, Activation::GeluExact);
    return bytes_of(bench, y, dx);
  });
}

TEST(Gelu, RefusesWrongShapesTypesAndForms) {
  Workbench bench;
  const Tensor x = bench.random<float>({4}, "x");
  Tensor y = bench.empty<float>({4}), short_y = bench.empty<float>({3});
  EXPECT_ERROR(gelu(bench.stream(), short_y, x, Activation::GeluTanh), Usage, "y is f32 [3]");
  EXPECT_ERROR(gelu(bench.stream(), y, x, Activation::None), Usage, "form");
  EXPECT_ERROR(gelu_backward(bench.stream(), y, bench.empty<double>({4}), x, Activation::GeluTanh),
               Usage, "dy is f64 [4], must be f32 [4]");
}

}  // namespace
}  // namespace sextant

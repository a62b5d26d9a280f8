#include "ops/add.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

TEST(Add, AddsElementByElementAlsoInPlace) {
  Workbench bench;
  Tensor a = bench.make<float>({3}, {1, 2, 3});
  const Tensor b = bench.make<float>({3}, {10, 20, 30});
  Tensor y = bench.empty<float>({3});
  add(bench.stream(), y, a, b);
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{11, 22, 33}));
  add(bench.stream(), a, a, b);
  EXPECT_EQ(bench.read<float>(a), (std::vector<float>{11, 22, 33}));
}

TEST(Add, GradientsOfBothAreThatOfTheSum) {
  Workbench bench;
  Tensor a = bench.random<double>({5}, "a"), b = bench.random<double>({5}, "b");
  const Tensor dy = bench.random<double>({5}, "dy");
  Tensor y = bench.empty<double>({5});
  const auto loss = [&] {
    add(bench.stream(), y, a, b);
    return dot(bench.stream(), y, dy);
  };
  expect_gradient(bench.stream(), a, dy, "a", loss);
  expect_gradient(bench.stream(), b, dy, "b", loss);
}

TEST(Add, EveryElementIsTheRoundedSum) {
  Workbench bench(2);
  const int64_t count = 100003;
  const Tensor a = bench.random<float>({count}, "a"), b = bench.random<float>({count}, "b");
  Tensor y = bench.empty<float>({count});
  add(bench.stream(), y, a, b);
  std::vector<float> wanted = bench.read<float>(a);
  const std::vector<float> more = bench.read<float>(b);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += more[i];
  EXPECT_EQ(bench.read<float>(y), wanted);
}

TEST(Add, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Tensor y = bench.empty<float>({50001});
    add(bench.stream(), y, bench.random<float>({50001}, "a"), bench.random<float>({50001}, "b"));
    return bytes_of(bench, y);
  });
}

TEST(Add, RefusesWrongShapesAndTypes) {
  Workbench bench;
  const Tensor a = bench.empty<float>({4});
  Tensor y = bench.empty<float>({4}), long_y = bench.empty<float>({5});
  EXPECT_ERROR(add(bench.stream(), y, a, bench.empty<float>({2, 2})), Usage,
               "b is f32 [2, 2], must be f32 [4]");
  EXPECT_ERROR(add(bench.stream(), y, a, bench.empty<double>({4})), Usage, "b is f64 [4]");
  EXPECT_ERROR(add(bench.stream(), long_y, a, a), Usage, "y is f32 [5]");
}

}  // namespace
}  // namespace sextant

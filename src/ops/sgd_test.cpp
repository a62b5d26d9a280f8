#include "ops/sgd.h"

#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Sgd, TwoStepsWithMomentumByHand) {
  Workbench bench;
  Tensor weight = bench.make<float>({1}, {8}), velocity = bench.make<float>({1}, {0});
  const Tensor gradient = bench.make<float>({1}, {4});
  const SgdStep step{.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25, .gradient_scale = 0.5};
  sgd(bench.stream(), weight, velocity, gradient, step);
  EXPECT_EQ(bench.read<float>(velocity), std::vector<float>{2});
  EXPECT_EQ(bench.read<float>(weight), std::vector<float>{6});  // 8 - 0.5 (2 + 0.25 * 8)
  sgd(bench.stream(), weight, velocity, gradient, step);
  EXPECT_EQ(bench.read<float>(velocity), std::vector<float>{3});
  EXPECT_EQ(bench.read<float>(weight), std::vector<float>{3.75});  // 6 - 0.5 (3 + 0.25 * 6)
}

TEST(Sgd, EmptyVelocityMeansNoMomentum) {
  Workbench bench;
  Tensor with = bench.random<float>({1001}, "weight"),
         without = bench.random<float>({1001}, "weight");
  const Tensor gradient = bench.random<float>({1001}, "gradient");
  Tensor velocity = bench.random<float>({1001}, "velocity"), none;
  const SgdStep step{.lr = 0.1, .momentum = 0, .weight_decay = 0.01};
  sgd(bench.stream(), with, velocity, gradient, step);
  sgd(bench.stream(), without, none, gradient, step);
  EXPECT_EQ(bench.bytes(with), bench.bytes(without));
  EXPECT_EQ(bench.read<float>(velocity), bench.read<float>(gradient));
}

TEST(Sgd, FloatsAgreeWithDoubles) {
  Workbench bench(2);
  const SgdStep step{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .gradient_scale = 0.7};
  Tensor w32 = bench.random<float>({9001}, "w"), v32 = bench.random<float>({9001}, "v");
  Tensor w64 = bench.random<double>({9001}, "w"), v64 = bench.random<double>({9001}, "v");
  sgd(bench.stream(), w32, v32, bench.random<float>({9001}, "g"), step);
  sgd(bench.stream(), w64, v64, bench.random<double>({9001}, "g"), step);
  expect_close(bench.read<float>(w32), bench.read<double>(w64), 1e-7, "weight");
  expect_close(bench.read<float>(v32), bench.read<double>(v64), 1e-7, "velocity");
}

TEST(Sgd, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Tensor weight = bench.random<float>({40003}, "w"), velocity = bench.random<float>({40003}, "v");
    sgd(bench.stream(), weight, velocity, bench.random<float>({40003}, "g"),
        {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
    return bytes_of(bench, weight, velocity);
  });
}

TEST(Sgd, RefusesWrongShapesAndMomentumWithoutVelocity) {
  Workbench bench;
  Tensor weight = bench.empty<float>({4}), velocity = bench.empty<float>({3}), none;
  const Tensor gradient = bench.empty<float>({4});
  EXPECT_ERROR(sgd(bench.stream(), weight, velocity, gradient, {}), Usage, "velocity is f32 [3]");
  EXPECT_ERROR(sgd(bench.stream(), weight, none, gradient, {.momentum = 0.9}), Usage,
               "momentum 0.9 needs a velocity");
  EXPECT_ERROR(sgd(bench.stream(), weight, none, bench.empty<double>({4}), {}), Usage,
               "gradient is f64 [4]");
}

}  // namespace
}  // namespace sextant

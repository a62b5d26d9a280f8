#include "ops/sgd.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/update.h"

namespace sextant {
namespace {

// One update of one parameter, as numbers.
struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0, gradient_scale = 1, apply = 1;
};

void update(Workbench& bench, const Tensor& weight, const Tensor& velocity, const Tensor& gradient,
            const SgdStep& step) {
  const SgdPart part{weight, velocity, gradient, step.weight_decay};
  sgd(bench.stream(), {&part, 1},
      update_scalars(bench, step.lr, 1, 1, step.gradient_scale, step.apply), step.momentum);
}

TEST(Sgd, UpdatesNothingUnlessToldTo) {
  Workbench bench;
  const Tensor weight = bench.make<float>({1}, {8}), gradient = bench.make<float>({1}, {4});
  update(bench, weight, Tensor(), gradient, {.lr = 0.5, .apply = 0});
  EXPECT_EQ(bench.read<float>(weight), std::vector<float>{8});
}

TEST(Sgd, TwoStepsWithMomentumByHand) {
  Workbench bench;
  Tensor weight = bench.make<float>({1}, {8}), velocity = bench.make<float>({1}, {0});
  const Tensor gradient = bench.make<float>({1}, {4});
  const SgdStep step{.lr = 0.5, .momentum = 0.5, .weight_decay = 0.25, .gradient_scale = 0.5};
  update(bench, weight, velocity, gradient, step);
  EXPECT_EQ(bench.read<float>(velocity), std::vector<float>{2});
  EXPECT_EQ(bench.read<float>(weight), std::vector<float>{6});  // 8 - 0.5 (2 + 0.25 * 8)
  update(bench, weight, velocity, gradient, step);
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
  update(bench, with, velocity, gradient, step);
  update(bench, without, none, gradient, step);
  EXPECT_EQ(bench.bytes(with), bench.bytes(without));
  EXPECT_EQ(bench.read<float>(velocity), bench.read<float>(gradient));
}

TEST(Sgd, FloatsAgreeWithDoubles) {
  Workbench bench(2);
  const SgdStep step{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .gradient_scale = 0.7};
  Tensor w32 = bench.random<float>({9001}, "w"), v32 = bench.random<float>({9001}, "v");
  Tensor w64 = bench.random<double>({9001}, "w"), v64 = bench.random<double>({9001}, "v");
  update(bench, w32, v32, bench.random<float>({9001}, "g"), step);
  update(bench, w64, v64, bench.random<double>({9001}, "g"), step);
  expect_close(bench.read<float>(w32), bench.read<double>(w64), 1e-7, "weight");
  expect_close(bench.read<float>(v32), bench.read<double>(v64), 1e-7, "velocity");
}

TEST(Sgd, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Tensor weight = bench.random<float>({40003}, "w"), velocity = bench.random<float>({40003}, "v");
    update(bench, weight, velocity, bench.random<float>({40003}, "g"),
           {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
    return bytes_of(bench, weight, velocity);
  });
}

TEST(Sgd, RefusesWrongShapesAndMomentumWithoutVelocity) {
  Workbench bench;
  Tensor weight = bench.empty<float>({4}), velocity = bench.empty<float>({3}), none;
  const Tensor gradient = bench.empty<float>({4});
  EXPECT_ERROR(update(bench, weight, velocity, gradient, {}), Usage, "velocity is f32 [3]");
  EXPECT_ERROR(update(bench, weight, none, gradient, {.momentum = 0.9}), Usage,
               "momentum 0.9 needs a velocity");
  EXPECT_ERROR(update(bench, weight, none, bench.empty<double>({4}), {}), Usage,
               "gradient is f64 [4]");
}

}  // namespace
}  // namespace sextant

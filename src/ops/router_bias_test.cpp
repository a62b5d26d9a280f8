#include "ops/router_bias.h"

#include <gtest/gtest.h>

#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

Tensor scalars_of(Workbench& bench, double apply) {
  std::vector<double> scalars(kUpdateScalars, 1);
  scalars[static_cast<size_t>(UpdateScalar::Apply)] = apply;
  return bench.make<double>({kUpdateScalars}, scalars);
}

TEST(RouterBias, LoadErrorsAreAgainstTheMeanAndAddUp) {
  Workbench bench;
  Tensor error = bench.empty<float>({4});
  router_load_error(bench.stream(), error, bench.make<int32_t>({4}, {3, 1, 0, 2}), Write::Replace);
  EXPECT_EQ(bench.read<float>(error), (std::vector<float>{6, -2, -6, 2}));
  router_load_error(bench.stream(), error, bench.make<int32_t>({4}, {0, 2, 0, 0}), Write::Add);
  EXPECT_EQ(bench.read<float>(error), (std::vector<float>{4, 4, -8, 0}));
}

TEST(RouterBias, MovesByTheRateAgainstTheSignOfTheError) {
  Workbench bench;
  Tensor bias = bench.make<float>({3}, {0.5F, 0.5F, 0.5F});
  const std::vector<RouterBiasPart> parts = {{bias, bench.make<float>({3}, {40, -1, 0})}};
  router_bias_update(bench.stream(), parts, scalars_of(bench, 0), 0.25);
  EXPECT_EQ(bench.read<float>(bias), (std::vector<float>{0.5F, 0.5F, 0.5F}));
  router_bias_update(bench.stream(), parts, scalars_of(bench, 1), 0.25);
  EXPECT_EQ(bench.read<float>(bias), (std::vector<float>{0.25F, 0.75F, 0.5F}));
}

TEST(RouterBias, ALoadIsTheErrorOfTheLastStepThatWasNotSkipped) {
  Workbench bench;
  Tensor load = bench.make<float>({2}, {5, -5});
  const std::vector<RouterBiasPart> parts = {{load, bench.make<float>({2}, {40, -40})}};
  router_load_update(bench.stream(), parts, scalars_of(bench, 0));
  EXPECT_EQ(bench.read<float>(load), (std::vector<float>{5, -5}));
  router_load_update(bench.stream(), parts, scalars_of(bench, 1));
  EXPECT_EQ(bench.read<float>(load), (std::vector<float>{40, -40}));
}

// A step of 1e-3 is below the last bit of 0.5 in bf16; the master keeps it.
TEST(RouterBias, ANarrowBiasIsItsMasterRounded) {
  Workbench bench;
  Tensor bias = bench.make<bf16>({1}, {round_nearest<bf16>(0.5F)});
  Tensor master = bench.make<float>({1}, {0.5F});
  const std::vector<RouterBiasPart> parts = {{bias, bench.make<float>({1}, {-8}), master}};
  for (int step = 0; step < 4; ++step)
    router_bias_update(bench.stream(), parts, scalars_of(bench, 1), 0x1p-10);
  EXPECT_EQ(bench.read<float>(master), (std::vector<float>{0.5F + 0x1p-8F}));
  EXPECT_EQ(widen(bench.read<bf16>(bias)[0]), 0.5F + 0x1p-8F);
}

}  // namespace
}  // namespace sextant

#include "bench/scaling.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

// A machine on which a rank makes 100 tokens/s, a tenth less with peers.
StepBench pretend(const Config& config) {
  StepBench step;
  const int ranks = world_size(config.parallel);
  step.tokens_per_s = 100.0 * ranks * (ranks == 1 ? 1 : 0.9);
  step.step_s = 2;
  step.comm_exposed_s = 0.5;
  return step;
}

TEST(BenchScaling, SetsBatchesByKindAndHoldsARankAgainstTheFirst) {
  ScalingOptions options;
  options.ranks = {1, 2, 4};
  options.batch = 3;
  options.zero = 2;
  std::vector<std::pair<int, int64_t>> asked;
  const auto config_of = [&](int ranks, int64_t batch, int zero) {
    EXPECT_EQ(zero, 2);
    asked.emplace_back(ranks, batch);
    Config config;
    config.parallel.shard = ranks;
    config.batch.global = batch;
    return config;
  };
  const std::vector<ScalingRow> rows = bench_scaling(options, config_of, pretend);
  using Asked = std::vector<std::pair<int, int64_t>>;
  EXPECT_EQ(asked, (Asked{{1, 3}, {2, 6}, {4, 12}, {1, 12}, {2, 12}, {4, 12}}));
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].scaling, Scaling::Weak);
  EXPECT_DOUBLE_EQ(rows[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(rows[2].efficiency, 0.9);
  EXPECT_EQ(rows[5].scaling, Scaling::Strong);
  EXPECT_EQ(rows[5].ranks, 4);
  EXPECT_DOUBLE_EQ(rows[5].efficiency, 0.9);
  EXPECT_DOUBLE_EQ(rows[5].exposed_share(), 0.25);
  options.batch = 0;
  EXPECT_ERROR((void)bench_scaling(options, config_of, pretend), Usage, "batch=0");
}

}  // namespace
}  // namespace sextant

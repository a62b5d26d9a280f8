#include "train/fit_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "support/counts.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

class FitAdviceTest : public testing::Test {
 protected:
  ResolvedConfig resolved(Overrides overrides, int64_t limit) {
    overrides.insert(overrides.begin(), {"model.preset=tiny", "run.threads=1", "batch.global=16"});
    overrides.push_back("run.memory_limit=" + std::to_string(limit));
    return parse_config("", "test", overrides);
  }
  static int64_t need(const Config& config) {
    int64_t most = 0;
    for (const MemoryEstimate& memory : forecast(config, 0).memory)
      most = std::max(most, memory.reserved);
    return most;
  }
  // Everything is tried.
  FitAdvice advise(const ResolvedConfig& config) {
    return advise_fit(config, forecast(config.config, 0), int64_t{1} << 40);
  }
};

const Overrides kLayouts[] = {
    {"batch.micro=16"},
    {"batch.micro=8", "parallel.dp=2"},
    {"batch.micro=4", "parallel.shard=4", "parallel.zero=1"},
    {"batch.micro=4", "parallel.dp=2", "parallel.shard=2"},
    {"batch.micro=2", "parallel.pp=2", "parallel.schedule=gpipe", "parallel.dp=2"},
    {"batch.micro=4", "parallel.tp=2", "parallel.sequence=false", "parallel.dp=2"},
    {"batch.micro=4", "parallel.dp=4", "precision.compute=bf16", "memory.recompute=selective"},
    {"batch.micro=4", "parallel.pp=2", "optim.post_validation=true"},
};

class SlowFitAdvice : public FitAdviceTest {};

TEST_F(SlowFitAdvice, EveryChangeFitsAndKeepsWorldSizeAndBatch) {
  int changes = 0;
  GridSample sample(2);
  for (const Overrides& layout : kLayouts) {
    const int64_t before = need(resolved(layout, 0).config);
    for (const double share : {0.97, 0.9, 0.8}) {
      if (!sample.takes()) continue;
      const auto limit = static_cast<int64_t>(share * static_cast<double>(before));
      const ResolvedConfig config = resolved(layout, limit);
      const FitAdvice advice = advise(config);
      EXPECT_LE(advice.changes.size(), 3u);
      EXPECT_EQ(advice.reserved, before);
      for (const FitChange& change : advice.changes) {
        Overrides all = layout;
        all.insert(all.end(), change.overrides.begin(), change.overrides.end());
        const Config changed = resolved(all, limit).config;
        EXPECT_EQ(need(changed), change.reserved) << join(all, " ");
        EXPECT_LE(change.reserved, limit) << join(all, " ");
        EXPECT_EQ(world_size(changed.parallel), world_size(config.config.parallel));
        EXPECT_EQ(changed.batch.global, 16) << join(all, " ");
        ++changes;
      }
    }
  }
  EXPECT_GT(changes, 20);
}

TEST_F(SlowFitAdvice, AChangeIsAdvisedDownToItsLastByte) {
  const Overrides layout = {"batch.micro=8", "parallel.dp=2"};
  const int64_t before = need(resolved(layout, 0).config);
  const auto is_advised = [&](const FitChange& change, int64_t limit) {
    const FitAdvice advice = advise(resolved(layout, limit));
    return std::ranges::any_of(advice.changes, [&](const FitChange& other) {
      return other.overrides == change.overrides;
    });
  };
  for (const FitChange& change : advise(resolved(layout, before - 1)).changes) {
    EXPECT_TRUE(is_advised(change, before - 1)) << join(change.overrides, " ");
    EXPECT_FALSE(is_advised(change, change.reserved - 1)) << join(change.overrides, " ");
  }
  const FitChange least = *advise(resolved(layout, 1000)).least;
  EXPECT_TRUE(is_advised(least, least.reserved)) << join(least.overrides, " ");
  EXPECT_FALSE(is_advised(least, least.reserved - 1)) << join(least.overrides, " ");
}

TEST_F(FitAdviceTest, ChangesAreRankedByPrecisionThenTime) {
  for (const Overrides& layout : kLayouts) {
    const int64_t limit = need(resolved(layout, 0).config) - 1;
    const std::vector<FitChange> changes = advise(resolved(layout, limit)).changes;
    EXPECT_TRUE(std::ranges::is_sorted(changes, {}, [](const FitChange& change) {
      return std::pair(change.narrows, change.step_ratio);
    }));
    std::set<Overrides> known;
    for (const FitChange& change : changes) EXPECT_TRUE(known.insert(change.overrides).second);
  }
}

// gpipe holds the activations of all micro-batches; 1f1b those of two.
TEST_F(FitAdviceTest, KnowsScheduleShardingAndRecomputation) {
  const auto advised = [&](const Overrides& layout, double share) {
    const int64_t before = need(resolved(layout, 0).config);
    const FitAdvice advice =
        advise(resolved(layout, static_cast<int64_t>(share * static_cast<double>(before))));
    std::string text;
    for (const FitChange& change : advice.changes) text += join(change.overrides, " ") + "\n";
    return text;
  };
  EXPECT_NE(advised({"batch.micro=1", "parallel.pp=2", "parallel.schedule=gpipe"}, 0.95)
                .find("parallel.schedule=1f1b"),
            std::string::npos);
  // Nothing but weights and optimizer is large.
  const Overrides large = {"model.hidden=512", "batch.micro=1", "batch.accumulation=8",
                           "parallel.dp=2", "model.seq=16"};
  EXPECT_NE(advised(large, 0.85).find("parallel.shard=2 parallel.zero=1"), std::string::npos)
      << advised(large, 0.85);
  const Overrides alone = {"batch.micro=1", "model.layers=16"};
  EXPECT_NE(advised(alone, 0.9).find("memory.recompute=full"), std::string::npos)
      << advised(alone, 0.9);
}

TEST_F(FitAdviceTest, SaysWhatIsLargestAndWhatWasTried) {
  const ResolvedConfig config = resolved({"batch.micro=8"}, 1000);
  FitAdvice advice = advise(config);
  EXPECT_TRUE(advice.changes.empty());
  EXPECT_EQ(advice.largest_bytes,
            forecast(config.config, 0).memory[0].categories()[static_cast<size_t>(advice.largest)]);
  const std::string text = advice_text(advice);
  EXPECT_NE(text.find("none found: "), std::string::npos) << text;
  EXPECT_NE(text.find("the least need is "), std::string::npos) << text;
  // Without operations nothing is tried, and that is said.
  advice = advise_fit(config, forecast(config.config, 0), 0);
  EXPECT_EQ(advice.tried, 0);
  EXPECT_GT(advice.untried, 5);
  EXPECT_NE(advice_text(advice).find("take too long to try"), std::string::npos);
}

// Work is counted, so threads do not decide what is tried.
TEST_F(FitAdviceTest, TheSameOperationsGiveTheSameAdvice) {
  const ResolvedConfig config = resolved(kLayouts[3], 1000);
  const Preflight flight = forecast(config.config, 0);
  int few = 0;
  for (const int64_t operations : {30'000, 100'000, 300'000}) {
    const FitAdvice advice = advise_fit(config, flight, operations);
    if (advice.tried > 0 && advice.untried > 0) ++few;
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(advice_text(advise_fit(config, flight, operations)), advice_text(advice));
  }
  EXPECT_GT(few, 0);
  EXPECT_GT(operations_for_trials(config.config, flight), 1'000'000);
}

}  // namespace
}  // namespace sextant

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "config/batch_plan.h"
#include "config/load.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using Overrides = std::vector<std::string>;

ResolvedConfig with_batch(Overrides overrides) {
  overrides.insert(overrides.begin(), "model.preset=tiny");
  return parse_config("", "run.toml", overrides);
}

BatchConfig batch_of(const Overrides& overrides) {
  return with_batch(overrides).config.batch;
}

std::string note_of(const Overrides& overrides) {
  for (const std::string& note : with_batch(overrides).notes)
    if (note.starts_with("batch: ")) return note;
  return "";
}

TEST(Batch, DataRanksEnterTheEquation) {
  const Overrides ranks = {"parallel.dp=2", "parallel.shard=3"};
  const auto with = [&](Overrides more) {
    more.insert(more.end(), ranks.begin(), ranks.end());
    return more;
  };
  EXPECT_EQ(batch_of(with({"batch.micro=4", "batch.accumulation=2"})), (BatchConfig{48, 4, 2}));
  EXPECT_EQ(batch_of(with({"batch.global=48", "batch.micro=4"})), (BatchConfig{48, 4, 2}));
  EXPECT_EQ(batch_of(with({"batch.global=48", "batch.accumulation=2"})), (BatchConfig{48, 4, 2}));
  EXPECT_EQ(batch_of(with({"batch.global=60"})), (BatchConfig{60, 5, 2}));
  EXPECT_EQ(batch_of(with({})), (BatchConfig{48, 8, 1}));
  EXPECT_EQ(note_of({"batch.global=8", "batch.micro=4", "parallel.dp=2"}),
            "batch: global 8 = micro 4 × accumulation 1 × data ranks 2");
}

TEST(Batch, OneThatDoesNotDivideIsCutAsEvenlyAsCanBe) {
  EXPECT_EQ(batch_of({"batch.global=8", "parallel.dp=3"}), (BatchConfig{8, 3, 1}));
  EXPECT_EQ(batch_of({"batch.global=8", "batch.micro=2", "parallel.dp=3"}), (BatchConfig{8, 2, 2}));
  EXPECT_EQ(batch_of({"batch.global=8", "batch.micro=3"}), (BatchConfig{8, 3, 3}));
  EXPECT_EQ(batch_of({"batch.global=8", "batch.accumulation=3"}), (BatchConfig{8, 3, 3}));
  EXPECT_EQ(batch_of({"batch.global=50", "parallel.dp=3"}), (BatchConfig{50, 6, 3}));
  EXPECT_EQ(batch_of({"batch.global=8", "batch.micro=2", "batch.accumulation=2", "parallel.dp=3"}),
            (BatchConfig{8, 2, 2}));
  EXPECT_EQ(note_of({"batch.global=8", "parallel.dp=3"}),
            "batch: global 8 over 3 data ranks: 3 3 2, micro 3, accumulation 1");
  EXPECT_EQ(note_of({"batch.global=8", "batch.micro=3"}),
            "batch: global 8 over 1 data rank: 8, micro 3, accumulation 3");
  EXPECT_EQ(note_of({"batch.global=1000", "parallel.dp=300"}),
            "batch: global 1000 over 300 data ranks: 100 take 4, 200 take 3, micro 4, "
            "accumulation 1");
  EXPECT_EQ(note_of({"batch.global=160", "batch.micro=3", "parallel.dp=20"}),
            "batch: global 160 over 20 data ranks: each takes 8, micro 3, accumulation 3");
}

TEST(Batch, APipelineGetsMicroBatchesEnoughToBeFilled) {
  EXPECT_EQ(batch_of({"batch.global=64", "parallel.pp=4"}), (BatchConfig{64, 8, 8}));
  EXPECT_EQ(batch_of({"batch.global=32", "parallel.pp=4"}), (BatchConfig{32, 4, 8}));
  EXPECT_EQ(batch_of({"batch.global=32", "parallel.pp=4", "parallel.dp=2"}),
            (BatchConfig{32, 2, 8}));
  EXPECT_EQ(batch_of({"batch.global=20", "parallel.pp=3"}), (BatchConfig{20, 2, 10}));
  EXPECT_EQ(batch_of({"batch.global=31", "parallel.pp=2", "parallel.dp=2"}),
            (BatchConfig{31, 4, 4}))
      << "15 and 16 samples";
  EXPECT_EQ(batch_of({"batch.global=4", "parallel.pp=4"}), (BatchConfig{4, 1, 4}))
      << "more there are not";
  EXPECT_EQ(batch_of({"parallel.pp=2"}), (BatchConfig{8, 2, 4})) << "as many samples as one rank";
  EXPECT_EQ(batch_of({"parallel.pp=3"}), (BatchConfig{8, 1, 8}));
  EXPECT_EQ(batch_of({"parallel.pp=8", "parallel.dp=2"}), (BatchConfig{32, 1, 16}));
  EXPECT_EQ(batch_of({"batch.micro=3", "parallel.pp=4"}), (BatchConfig{24, 3, 8}));
}

TEST(Batch, APipelineTakesWhatItIsTold) {
  EXPECT_EQ(batch_of({"batch.global=64", "batch.micro=16", "parallel.pp=4"}),
            (BatchConfig{64, 16, 4}));
  EXPECT_EQ(batch_of({"batch.global=64", "batch.accumulation=1", "parallel.pp=4"}),
            (BatchConfig{64, 64, 1}));
  EXPECT_EQ(batch_of({"batch.accumulation=1", "parallel.pp=4"}), (BatchConfig{8, 8, 1}));
  EXPECT_EQ(batch_of({"batch.micro=2", "batch.accumulation=3", "parallel.pp=4"}),
            (BatchConfig{6, 2, 3}));
}

TEST(Batch, NumbersThatDisagreeAreRefusedWithWhatWorks) {
  EXPECT_ERROR(batch_of({"batch.global=2", "parallel.dp=3"}), Config,
               "batch.global = 2 leaves some of 3 data ranks without a sample: at least 3");
  EXPECT_ERROR(batch_of({"batch.global=8", "batch.micro=5"}), Config,
               "in 2 micro-batches: set batch.micro = 4");
  EXPECT_ERROR(batch_of({"batch.global=8", "batch.micro=2", "batch.accumulation=2"}), Config,
               "set batch.micro = 4");
  EXPECT_ERROR(batch_of({"batch.global=8", "batch.micro=9"}), Config, "set batch.micro = 8");
  EXPECT_ERROR(batch_of({"batch.global=8", "batch.accumulation=4", "parallel.dp=3"}), Config,
               "at most 3");
  EXPECT_ERROR(batch_of({"batch.global=8", "batch.micro=1", "batch.accumulation=9"}), Config,
               "at most 8");
}

TEST(Batch, ProductsThatOverflowAreRefused) {
  EXPECT_ERROR(batch_of({"batch.micro=65536", "batch.accumulation=65536"}), Config,
               "too many sequences: at most 2147483647");
  EXPECT_ERROR(batch_of({"batch.micro=2147483647", "batch.accumulation=2147483647",
                         "parallel.dp=1024", "parallel.shard=1024"}),
               Config, "too many sequences");
}

// Walks ranks and micro-batches in order: each slice begins where the last one ended.
void expect_cover(const BatchConfig& batch, int ranks) {
  int64_t next = 0, largest = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (int micro = 0; micro < static_cast<int>(batch.accumulation); ++micro) {
      const MicroSlice slice = micro_slice(batch, ranks, rank, micro);
      ASSERT_EQ(slice.first, next);
      ASSERT_GE(slice.count, 0);
      largest = std::max(largest, slice.count);
      next += slice.count;
    }
  EXPECT_EQ(next, batch.global);
  EXPECT_EQ(largest, batch.micro) << "global " << batch.global << " ranks " << ranks;
}

TEST(BatchPlan, ThreeRanksTakeEightSamplesAsThreeThreeTwo) {
  const BatchConfig batch = batch_of({"batch.global=8", "batch.micro=2", "parallel.dp=3"});
  EXPECT_EQ(micro_slice(batch, 3, 0, 0), (MicroSlice{0, 2}));
  EXPECT_EQ(micro_slice(batch, 3, 0, 1), (MicroSlice{2, 1}));
  EXPECT_EQ(micro_slice(batch, 3, 1, 0), (MicroSlice{3, 2}));
  EXPECT_EQ(micro_slice(batch, 3, 2, 1), (MicroSlice{7, 1}));
}

TEST(BatchPlan, SlicesCoverTheBatchOnceAndTheLargestIsMicro) {
  int resolved = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Random random(seed, "batch plan");
    const auto draw = [&](uint64_t bound, uint64_t index) {
      return std::to_string(random.below(bound, index) + 1);
    };
    Overrides overrides = {"parallel.dp=" + draw(6, 0), "parallel.shard=" + draw(4, 1),
                           "parallel.pp=" + draw(4, 6)};
    const uint64_t which = random.below(8, 2);
    if (which & 1) overrides.push_back("batch.global=" + draw(300, 3));
    if (which & 2) overrides.push_back("batch.micro=" + draw(12, 4));
    if (which & 4) overrides.push_back("batch.accumulation=" + draw(6, 5));
    try {
      const Config config = with_batch(overrides).config;
      ++resolved;
      expect_cover(config.batch, data_ranks(config.parallel));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Config) << error.what();
    }
  }
  EXPECT_GT(resolved, 250) << "most draws should make a batch";
}

}  // namespace
}  // namespace sextant

#include "bench/context.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

ParallelConfig layout_of(ContextKind kind, int ranks, int ulysses = 1) {
  ParallelConfig layout;
  layout.cp = ranks;
  layout.cp_kind = kind;
  layout.ulysses = ulysses;
  return layout;
}

std::vector<ParallelConfig> every_kind(int ranks) {
  return {layout_of(ContextKind::Ring, ranks), layout_of(ContextKind::Ulysses, ranks),
          layout_of(ContextKind::AllGather, ranks), layout_of(ContextKind::RingUlysses, ranks, 2)};
}

class BenchContext : public ::testing::Test {
 protected:
  std::vector<ContextRow> measure(const Heads& heads, std::vector<ParallelConfig> layouts) {
    return bench_context({.heads = heads, .layouts = std::move(layouts), .rounds = 2}, clock_,
                         log_);
  }
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
};

TEST_F(BenchContext, TimesEveryKindBesideOneRankAndTheMessages) {
  const std::vector<ContextRow> rows = measure({2, 64, 8, 4, 16}, every_kind(4));
  ASSERT_EQ(rows.size(), 4u);
  for (const ContextRow& row : rows) {
    for (const AttentionSeconds& seconds : {row.alone, row.messages, row.shared}) {
      EXPECT_GT(seconds.forward, 0) << name_of(row.layout.cp_kind);
      EXPECT_GT(seconds.backward, 0) << name_of(row.layout.cp_kind);
    }
    EXPECT_EQ(row.alone.total(), rows[0].alone.total());
    EXPECT_LT(row.difference, 1e-5) << name_of(row.layout.cp_kind);
    EXPECT_DOUBLE_EQ(row.expected(), row.alone.total() / 4 + row.messages.total());
    EXPECT_DOUBLE_EQ(row.ratio(), row.shared.total() / row.expected());
  }
}

TEST_F(BenchContext, CountsPairsAndBytesOfARank) {
  constexpr int64_t kRanks = 4, kBatch = 2, kSeq = 64, kHeads = 8, kKvHeads = 4, kDim = 16;
  const std::vector<ContextRow> rows =
      measure({kBatch, kSeq, kHeads, kKvHeads, kDim}, every_kind(kRanks));
  const int64_t pairs = kBatch * kHeads * kSeq * (kSeq + 1) / 2;
  const int64_t tokens = kBatch * kSeq / kRanks;
  const int64_t kv = 4 * tokens * 2 * kKvHeads * kDim, out = 4 * tokens * kHeads * kDim;
  const int64_t exchanged = 2 * (2 * out + kv);  // qkv, out, and both again in backward
  const int64_t sent[] = {(2 * (kRanks - 1) + kRanks) * kv, exchanged * (kRanks - 1) / kRanks,
                          3 * (kRanks - 1) * kv, exchanged / 2 + (2 * (2 - 1) + 2) * kv};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].least_pairs, pairs / kRanks) << name_of(rows[i].layout.cp_kind);
    EXPECT_EQ(rows[i].most_pairs, pairs / kRanks) << name_of(rows[i].layout.cp_kind);
    EXPECT_EQ(rows[i].sent_bytes, sent[i]) << name_of(rows[i].layout.cp_kind);
  }
}

TEST_F(BenchContext, RepeatsKeyValueHeadsWhereRanksOutnumberThem) {
  const std::vector<ContextRow> rows =
      measure({1, 64, 8, 2, 8},
              {layout_of(ContextKind::Ulysses, 4), layout_of(ContextKind::RingUlysses, 4, 2)});
  // Each rank sends its queries, and keys and values replicated to the number of ranks.
  EXPECT_EQ(rows[0].sent_bytes, 4 * 16 * 2 * (8 + 2 * 4 + 8) * 8 * 3 / 4);
}

TEST_F(BenchContext, RefusesWhatItCannotMeasure) {
  const Heads heads{1, 32, 2, 2, 8};
  EXPECT_ERROR(measure(heads, {}), Usage, "0 kinds");
  EXPECT_ERROR(measure(heads, {layout_of(ContextKind::Ring, 1)}), Usage, "ring over 1 ranks");
  EXPECT_ERROR(
      measure(heads, {layout_of(ContextKind::Ring, 2), layout_of(ContextKind::Ulysses, 4)}), Usage,
      "ulysses over 4 ranks");
}

}  // namespace
}  // namespace sextant

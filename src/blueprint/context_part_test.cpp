#include "blueprint/context_part.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sextant {
namespace {

std::vector<ContextPart> ranks_of(int degree, int ulysses, bool uses_all_gather = false) {
  std::vector<ContextPart> all;
  for (int rank = 0; rank < degree; ++rank) all.push_back({degree, rank, ulysses, uses_all_gather});
  return all;
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

TEST(ContextPart, EveryTokenIsOnOneRank) {
  for (const auto& [degree, ulysses] :
       {std::pair{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 4}, {4, 2}, {6, 3}, {8, 2}, {8, 4}}) {
    constexpr int64_t kSeq = 96;
    std::vector<int> owners(kSeq);
    for (const ContextPart& part : ranks_of(degree, ulysses)) {
      int64_t own = 0, last = -1;
      for (const Range& run : tokens_of(part, kSeq)) {
        EXPECT_GT(run.begin, last);  // in the order of the sequence
        last = run.end - 1;
        own += run.size();
        for (int64_t token = run.begin; token < run.end; ++token)
          ++owners[static_cast<size_t>(token)];
      }
      EXPECT_EQ(own, kSeq / degree);
    }
    EXPECT_EQ(owners, std::vector<int>(kSeq, 1)) << degree << " ranks, groups of " << ulysses;
  }
}

TEST(ContextPart, RingRanksHaveChunksFromBothEnds) {
  using Runs = std::vector<Range>;
  EXPECT_EQ(tokens_of({4, 0}, 16), (Runs{{0, 2}, {14, 16}}));
  EXPECT_EQ(tokens_of({4, 2}, 16), (Runs{{4, 6}, {10, 12}}));
  EXPECT_EQ(tokens_of({4, 3}, 16), (Runs{{6, 10}}));
  EXPECT_EQ(tokens_of({4, 1, 4}, 16), (Runs{{4, 8}}));            // Ulysses
  EXPECT_EQ(tokens_of({4, 0, 2}, 16), (Runs{{0, 4}}));            // first group: 0 ... 3 and
  EXPECT_EQ(tokens_of({4, 1, 2}, 16), (Runs{{12, 16}}));          // 12 ... 15
  EXPECT_EQ(tokens_of({6, 1, 3}, 24), (Runs{{4, 6}, {18, 20}}));  // spans both chunks
}

TEST(ContextPart, AllRanksOfARingHaveTheSameWorkInEveryStep) {
  for (const int degree : {2, 4, 8})
    for (const int64_t seq : {64, 96, 1024}) {
      const std::vector<int64_t> first = causal_pairs({degree, 0}, seq);
      for (const ContextPart& part : ranks_of(degree, 1))
        EXPECT_EQ(causal_pairs(part, seq), first) << part.rank << " of " << degree;
      EXPECT_EQ(sum(first) * degree, seq * (seq + 1) / 2);
    }
  EXPECT_EQ(causal_pairs({4, 1}, 16), (std::vector<int64_t>{10, 8, 8, 8}));
}

TEST(ContextPart, ComesFromTheConfiguration) {
  ParallelConfig parallel;
  EXPECT_EQ(context_part(parallel, 0), ContextPart{});
  parallel.cp = 4;
  EXPECT_EQ(context_part(parallel, 3), (ContextPart{4, 3, 1, false}));
  parallel.cp_kind = ContextKind::Ulysses;
  EXPECT_EQ(context_part(parallel, 1), (ContextPart{4, 1, 4, false}));
  parallel.cp_kind = ContextKind::AllGather;
  EXPECT_EQ(context_part(parallel, 1), (ContextPart{4, 1, 1, true}));
  parallel.cp_kind = ContextKind::RingUlysses;
  parallel.ulysses = 2;
  EXPECT_EQ(context_part(parallel, 2), (ContextPart{4, 2, 2, false}));
  EXPECT_EQ(context_part(parallel, 2).group(), 1);
}

}  // namespace
}  // namespace sextant

#include "data/sequence_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sextant {
namespace {

// Rows whose documents start at the given places; token i of row r is 100 r + i.
HostBatch batch_of(int64_t seq, const std::vector<std::vector<int32_t>>& documents) {
  HostBatch batch;
  batch.batch = static_cast<int64_t>(documents.size());
  batch.seq = seq;
  for (size_t row = 0; row < documents.size(); ++row) {
    int32_t start = 0;
    for (int32_t i = 0; i < seq; ++i) {
      if (std::ranges::find(documents[row], i) != documents[row].end()) start = i;
      batch.tokens.push_back(static_cast<int32_t>(100 * row) + i);
      batch.targets.push_back(static_cast<int32_t>(100 * row) + i + 1);
      batch.positions.push_back(i - start);
      batch.starts.push_back(start);
    }
  }
  return batch;
}

class OfEveryKind : public testing::TestWithParam<ContextPart> {};

// Every query sees each key of its document in the window up to itself exactly once, over all
// parts.
void expect_seen_once(ContextPart context, int64_t window) {
  constexpr int64_t kSeq = 24;
  const HostBatch whole = batch_of(kSeq, {{0, 5, 6, 17}, {0}});
  for (int rank = 0; rank < context.degree; ++rank) {
    context.rank = rank;
    HostBatch part;
    SequencePart(context, kSeq, window).take(part, whole);
    EXPECT_EQ(part.seq, kSeq / context.degree);
    EXPECT_EQ(part.tokens.size(), static_cast<size_t>(2 * part.seq));
    const std::vector<Range> queries = tokens_of_group(context, context.group(), kSeq);
    const int64_t parts = context_parts(context);
    const int64_t in_row = kSeq / context.ring();
    ASSERT_EQ(part.key_begin.size(), static_cast<size_t>(parts * 2 * in_row));
    for (int64_t row = 0; row < 2; ++row) {
      int64_t query = 0;
      for (const Range& run : queries)
        for (int64_t token = run.begin; token < run.end; ++token, ++query) {
          std::vector<int64_t> seen;
          for (int64_t i = 0; i < parts; ++i) {
            std::vector<int64_t> keys(kSeq);
            std::iota(keys.begin(), keys.end(), 0);
            if (!context.uses_all_gather) {
              keys.clear();
              const int ring = context.ring();
              for (const Range& of : tokens_of_group(
                       context, (context.group() - static_cast<int>(i) + ring) % ring, kSeq))
                for (int64_t key = of.begin; key < of.end; ++key) keys.push_back(key);
            }
            const auto at = static_cast<size_t>((i * 2 + row) * in_row + query);
            for (int32_t k = part.key_begin[at]; k < part.key_end[at]; ++k)
              seen.push_back(keys[static_cast<size_t>(k)]);
          }
          std::ranges::sort(seen);
          std::vector<int64_t> wanted;
          int64_t first = whole.starts[static_cast<size_t>(row * kSeq + token)];
          if (window > 0) first = std::max(first, token + 1 - window);
          for (int64_t key = first; key <= token; ++key) wanted.push_back(key);
          EXPECT_EQ(seen, wanted) << "token " << token << " on rank " << rank;
        }
    }
  }
}

TEST_P(OfEveryKind, QueriesSeeTheKeysOfTheirDocumentOnce) {
  expect_seen_once(GetParam(), 0);
}

TEST_P(OfEveryKind, QueriesSeeTheKeysOfTheirWindowOnce) {
  for (const int64_t window : {1, 3, 10, 24}) expect_seen_once(GetParam(), window);
}

// Targets and positions are sliced, not recomputed.
TEST_P(OfEveryKind, TokensKeepTheirTargetsAndPositions) {
  constexpr int64_t kSeq = 24;
  const HostBatch whole = batch_of(kSeq, {{0, 9}, {0, 1}});
  HostBatch part;
  SequencePart(GetParam(), kSeq, 0).take(part, whole);
  for (size_t i = 0; i < part.tokens.size(); ++i) {
    EXPECT_EQ(part.targets[i], part.tokens[i] + 1);
    const auto row = static_cast<size_t>(part.tokens[i] / 100),
               place = static_cast<size_t>(part.tokens[i] % 100);
    EXPECT_EQ(part.positions[i], whole.positions[row * kSeq + place]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OfEveryKind,
                         testing::Values(ContextPart{2, 0}, ContextPart{4, 1},
                                         ContextPart{4, 0, 1, true}, ContextPart{4, 2, 4},
                                         ContextPart{4, 3, 2}, ContextPart{6, 1, 3}));

}  // namespace
}  // namespace sextant

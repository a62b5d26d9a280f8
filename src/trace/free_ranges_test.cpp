#include "trace/free_ranges.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace sextant {
namespace {

std::vector<FreeRange> all(const FreeRanges& ranges) {
  std::vector<FreeRange> out;
  FreeRanges::Reader reader(ranges);
  while (const FreeRange* range = reader.next()) out.push_back(*range);
  return out;
}

TEST(FreeRanges, TakesAndPutsBack) {
  FreeRanges ranges(1000);
  std::vector<FreeRange> taken;
  ranges.take(100, 200, taken);
  ranges.take(300, 400, taken);
  ASSERT_EQ(all(ranges).size(), 3u);
  ranges.put({100, 200, 5});  // not for as long as its neighbours
  EXPECT_EQ(all(ranges).size(), 4u);
  taken.clear();
  ranges.take(50, 250, taken);  // over all three
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[1].until, 5);
  EXPECT_EQ(all(ranges)[0].end, 50);
  for (const FreeRange& range : taken) ranges.put(range);
  ranges.put({300, 400, kForever});
  EXPECT_EQ(all(ranges).size(), 3u);  // up to 100, up to 200, the rest
}

TEST(FreeRanges, OnlyWhatIsFreeCanBeTaken) {
  FreeRanges ranges(1000);
  std::vector<FreeRange> taken;
  ranges.take(0, 100, taken);
  EXPECT_THROW(ranges.take(50, 150, taken), Error);
  EXPECT_THROW(ranges.take(0, 10, taken), Error);
  EXPECT_THROW(ranges.take(900, 1001, taken), Error);
}

// Against one `until` per address; enough ranges for many blocks.
TEST(FreeRanges, AreThoseOfAnArrayOfAddresses) {
  constexpr int64_t kBytes = 8000;
  constexpr int32_t kTaken = -1;
  FreeRanges ranges(kBytes);
  std::vector<int32_t> untils(kBytes, kForever);
  std::vector<FreeRange> held;
  const Random random(1, "free ranges");
  uint64_t drawn = 0;
  const auto number = [&](int64_t most) { return int64_t{random.bits(drawn++)} % most; };
  for (int round = 0; round < 30000; ++round) {
    const int64_t begin = number(kBytes), end = std::min(kBytes, begin + 1 + number(4));
    bool is_free = true, is_taken = true;
    for (int64_t at = begin; at < end; ++at) {
      const bool taken = untils[static_cast<size_t>(at)] == kTaken;
      is_free = is_free && !taken;
      is_taken = is_taken && taken;
    }
    if (is_free) {
      held.clear();
      ranges.take(begin, end, held);
      int64_t at = begin;
      for (const FreeRange& range : held) {
        ASSERT_EQ(range.begin, at);
        for (; at < range.end; ++at) {
          ASSERT_EQ(untils[static_cast<size_t>(at)], range.until);
          untils[static_cast<size_t>(at)] = kTaken;
        }
      }
      ASSERT_EQ(at, end);
    } else if (is_taken) {
      const auto until = static_cast<int32_t>(number(3));
      ranges.put({begin, end, until});
      for (int64_t at = begin; at < end; ++at) untils[static_cast<size_t>(at)] = until;
    }
  }
  std::vector<FreeRange> expected;
  for (int64_t at = 0; at < kBytes; ++at) {
    const int32_t until = untils[static_cast<size_t>(at)];
    if (until == kTaken) continue;
    if (!expected.empty() && expected.back().end == at && expected.back().until == until)
      ++expected.back().end;
    else
      expected.push_back({at, at + 1, until});
  }
  EXPECT_GT(expected.size(), 4 * FreeRanges::kMostOfBlock);
  EXPECT_EQ(all(ranges), expected);
}

}  // namespace
}  // namespace sextant

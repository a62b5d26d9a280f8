#include "sim/target.h"

#include <gtest/gtest.h>

#include "schedule/generators.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

int least(double target, int most, const MakeSchedule& make, const Costs& costs = {}) {
  return least_micros(target, most, 8, costs, make).micros;
}
MakeSchedule one_f_one_b_of(int ranks) {
  return [ranks](int micros) { return one_f_one_b(ranks, micros); };
}

TEST(LeastMicros, KeepsTheRuleOfThumb) {
  EXPECT_EQ(least(0.05, 100'000, one_f_one_b_of(8)), 133);
  EXPECT_EQ(least(0.10, 100'000, one_f_one_b_of(4)), 27);
  EXPECT_EQ(least(0.01, 100'000, one_f_one_b_of(4)), 297);
  EXPECT_EQ(least(0, 100'000, one_f_one_b_of(1)), 1);
  // Also with times that are not binary fractions, whose sums are rounded.
  for (const double time : {0.1, 0.3, 0.7})
    EXPECT_EQ(least(0.05, 100'000, one_f_one_b_of(8), {.stages = {{time, time, time}}}), 133);
}

TEST(LeastMicros, IsTheLeastByTheFormula) {
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const double target : {0.5, 0.3, 0.11, 0.07}) {
      int expected = 1;
      while ((ranks - 1.0) / (expected + ranks - 1) > target) ++expected;
      const MicrosForBubble found = least_micros(target, 4096, 1, {}, one_f_one_b_of(ranks));
      EXPECT_EQ(found.micros, expected) << ranks << " " << target;
      EXPECT_DOUBLE_EQ(found.bubble_fraction, (ranks - 1.0) / (expected + ranks - 1));
    }
}

TEST(LeastMicros, StepsOverNumbersWithoutASchedule) {
  const MakeSchedule make = [](int micros) -> std::optional<Schedule> {
    if (micros % 4 != 0) return {};
    return interleaved(4, micros, 2, 4);
  };
  // 3 / (2 m + 3) <= 10 % from m = 13.5 on.
  EXPECT_EQ(least(0.10, 100'000, make), 16);
  EXPECT_EQ(least(3.0 / 35, 100'000, make), 16);
  EXPECT_EQ(least(0.99, 100'000, make), 4);
  for (const int every : {2, 3, 5, 7, 8})
    for (int wanted = every; wanted <= 12 * every; wanted += every) {
      const MakeSchedule some = [every](int micros) -> std::optional<Schedule> {
        if (micros % every != 0) return {};
        return gpipe(2, micros);
      };
      EXPECT_EQ(least(1.0 / (wanted + 1), 1000, some), wanted) << every;
    }
  const MakeSchedule late = [](int micros) -> std::optional<Schedule> {
    if (micros < 100) return {};
    return gpipe(2, micros);
  };
  EXPECT_EQ(least(0.5, 100'000, late), 100);
}

TEST(LeastMicros, SaysWhatWasReachedWhenNoneIsEnough) {
  EXPECT_ERROR(least(0.01, 100, one_f_one_b_of(4)), Config,
               "no number of micro-batches up to 100 brings the bubble to 1 %; 100 leave 2.9");
  // A slower stage keeps the rank that ends last idle, however many micros there are.
  EXPECT_ERROR(least(0.05, 1000, one_f_one_b_of(2), {.stages = {{1, 1, 1}, {2, 2, 2}}}), Config,
               "1000 leave 50");
  EXPECT_ERROR(least(0.05, 1000, [](int) { return std::optional<Schedule>(); }), Config,
               "brings the bubble to 5 %");
}

}  // namespace
}  // namespace sextant

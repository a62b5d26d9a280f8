#include "base/clock.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TEST(Clock, TheSystemClockNeverRunsBackwards) {
  const SystemClock clock;
  double last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const double now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, WallTimeIsSinceTheUnixEpochInSeconds) {
  const double wall = SystemClock().wall();
  EXPECT_GT(wall, 1.6e9);  // 2020
  EXPECT_LT(wall, 1e10);   // 2286
}

TEST(Clock, AManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const double begin = clock.now();
  EXPECT_EQ(clock.now(), begin);
  clock.advance(2.5);
  EXPECT_EQ(clock.now(), begin + 2.5);
  EXPECT_EQ(clock.wall(), clock.now());
}

}  // namespace
}  // namespace sextant

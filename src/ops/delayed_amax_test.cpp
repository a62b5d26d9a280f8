#include "ops/delayed_amax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Floats = std::vector<float>;

TEST(DelayedAmax, TakesWhatIsUsedAndRaisesWhatWasFound) {
  Workbench bench;
  Tensor found = bench.make<float>({1}, {3});
  const Tensor used = bench.make<float>({1}, {7});
  const auto taken = [&](float own, WithAmax with) {
    Tensor amax = bench.make<float>({1, 1}, {own});
    take_delayed_amax(bench.stream(), amax, found, used, with);
    return bench.read<float>(amax)[0];
  };
  EXPECT_EQ(taken(2, WithAmax::Used), 7);
  EXPECT_EQ(bench.read<float>(found), Floats{3});
  EXPECT_EQ(taken(5, WithAmax::Found), 5);
  EXPECT_EQ(bench.read<float>(found), Floats{5});
  EXPECT_EQ(taken(NAN, WithAmax::Used), 7);
  EXPECT_TRUE(std::isnan(bench.read<float>(found)[0]));
}

// By hand: a history of two steps, margin 1.
TEST(DelayedAmax, UsesTheLargestOfItsHistoryTimesTheMargin) {
  Workbench bench;
  Tensor state = bench.make<float>({1, 3}, {0, 0, 0});
  const auto step = [&](float found) {
    update_delayed_amax(bench.stream(), state, bench.make<float>({1}, {found}), 1);
    return bench.read<float>(state);
  };
  EXPECT_EQ(step(0), (Floats{0, 0, 0}));  // nothing is known yet
  EXPECT_EQ(step(4), (Floats{8, 4, 0}));
  EXPECT_EQ(step(3), (Floats{8, 3, 4}));
  EXPECT_EQ(step(1), (Floats{6, 1, 3}));
  EXPECT_EQ(step(std::numeric_limits<float>::infinity()), (Floats{6, 1, 3}));  // not entered
  EXPECT_EQ(step(NAN), (Floats{6, 1, 3}));
  EXPECT_EQ(step(0), (Floats{2, 0, 1}));
  EXPECT_EQ(step(0), (Floats{2, 0, 0}));          // zeros change nothing
  EXPECT_EQ(step(3e38F), (Floats{2, 3e38F, 0}));  // twice that is no number
}

TEST(DelayedAmax, RowsAreApart) {
  Workbench bench;
  Tensor state = bench.make<float>({2, 2}, {5, 5, 6, 6});
  update_delayed_amax(bench.stream(), state, bench.make<float>({2}, {1, 9}), 0);
  EXPECT_EQ(bench.read<float>(state), (Floats{1, 1, 9, 9}));
}

TEST(DelayedAmax, RefusesOtherShapes) {
  Workbench bench;
  Tensor state = bench.empty<float>({2, 1}), one = bench.empty<float>({1});
  const Tensor two = bench.empty<float>({2});
  EXPECT_ERROR(update_delayed_amax(bench.stream(), state, two, 0), Usage, "and a history");
  Tensor amax = bench.empty<float>({2});
  EXPECT_ERROR(take_delayed_amax(bench.stream(), amax, one, one, WithAmax::Used), Usage,
               "amax must be one f32");
}

}  // namespace
}  // namespace sextant

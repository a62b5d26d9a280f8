#include "ops/moe_capacity.h"

#include <gtest/gtest.h>

#include "ops/moe_permute.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Ints = std::vector<int32_t>;

TEST(MoeCapacity, LaterTokensOfAFullExpertAreDropped) {
  Workbench bench;
  const Tensor choice = bench.make<int32_t>({4, 2}, {1, 0, 1, 2, 1, 0, 2, 1});
  Tensor kept = bench.empty<int32_t>({4, 2});
  moe_limit(bench.stream(), kept, choice, 2, 3);
  EXPECT_EQ(bench.read<int32_t>(kept), (Ints{1, 0, 1, 2, kDropped, 0, 2, kDropped}));
  moe_limit(bench.stream(), kept, choice, 1, 3);
  EXPECT_EQ(bench.read<int32_t>(kept),
            (Ints{1, 0, kDropped, 2, kDropped, kDropped, kDropped, kDropped}));
  Tensor counts = bench.empty<int32_t>({3});
  moe_count(bench.stream(), counts, kept);
  EXPECT_EQ(bench.read<int32_t>(counts), (Ints{1, 1, 1}));
}

TEST(MoeCapacity, LimitsInPlaceAndCountsWhatHasNoPlace) {
  Workbench bench;
  Tensor choice = bench.make<int32_t>({3, 1}, {0, 0, 0});
  moe_limit(bench.stream(), choice, choice, 2, 2);
  EXPECT_EQ(bench.read<int32_t>(choice), (Ints{0, 0, kDropped}));
  const Tensor counts = bench.make<int32_t>({2}, {2, 0});
  Tensor places = bench.empty<int32_t>({3});
  moe_places(bench.stream(), places, choice, counts);
  EXPECT_EQ(bench.read<int32_t>(places), (Ints{0, 1, kDropped}));
  Tensor dropped = bench.make<double>({1}, {5});
  moe_count_dropped(bench.stream(), dropped, places);
  EXPECT_EQ(bench.read<double>(dropped)[0], 6);
}

TEST(MoeCapacity, DroppedPairsAddNothingAndTheirGatesHaveNoGradient) {
  Workbench bench;
  const Tensor places = bench.make<int32_t>({6}, {kDropped, 1, 0, 2, kDropped, kDropped});
  Tensor rows = bench.make<double>({6, 2}, {1, 2, 3, 4, 5, 6, NAN, NAN, NAN, NAN, NAN, NAN});
  const Tensor gates = bench.make<double>({3, 2}, {10, 1, 100, 1000, 7, 7});
  Tensor y = bench.empty<double>({3, 2});
  moe_combine(bench.stream(), y, rows, gates, places);
  EXPECT_EQ(bench.read<double>(y), (std::vector<double>{3, 4, 5100, 6200, 0, 0}));
  moe_permute_backward(bench.stream(), y, rows, places);
  EXPECT_EQ(bench.read<double>(y), (std::vector<double>{3, 4, 6, 8, 0, 0}));
  const Tensor dy = bench.make<double>({3, 2}, {1, 1, 2, 0, 3, 3});
  Tensor dgates = bench.empty<double>({3, 2});
  moe_combine_backward(bench.stream(), rows, dgates, dy, rows, gates, places);
  EXPECT_EQ(bench.read<double>(dgates), (std::vector<double>{0, 7, 2, 10, 0, 0}));
  Tensor moved = bench.make<double>({6, 2}, std::vector<double>(12, -1));
  moe_permute(bench.stream(), moved, dy, places);
  EXPECT_EQ(bench.read<double>(moved),
            (std::vector<double>{2, 0, 1, 1, 2, 0, -1, -1, -1, -1, -1, -1}));
}

TEST(MoeCapacity, BadArgumentsAreRefused) {
  Workbench bench;
  Tensor choice = bench.make<int32_t>({1, 1}, {0});
  EXPECT_ERROR(moe_limit(bench.stream(), choice, choice, 0, 2), Usage, "a capacity of 0");
  Tensor counts = bench.empty<int32_t>({2});
  EXPECT_ERROR(moe_count(bench.stream(), counts, counts), Usage, "kept");
}

}  // namespace
}  // namespace sextant

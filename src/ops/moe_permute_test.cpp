#include "ops/moe_permute.h"

#include <gtest/gtest.h>

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Ints = std::vector<int32_t>;
using Reals = std::vector<double>;

TEST(MoePermute, PlacesAreSortedByExpertAndThenByToken) {
  Workbench bench;
  const Tensor choice = bench.make<int32_t>({3, 2}, {2, 0, 0, 2, 2, 3});
  const Tensor counts = bench.make<int32_t>({4}, {2, 0, 3, 1});
  Tensor places = bench.empty<int32_t>({6});
  moe_places(bench.stream(), places, choice, counts);
  EXPECT_EQ(bench.read<int32_t>(places), (Ints{2, 0, 1, 3, 4, 5}));
}

TEST(MoePermute, MovesTokensAndCombinesThemByHand) {
  Workbench bench;
  const Tensor places = bench.make<int32_t>({4}, {3, 0, 2, 1});
  const Tensor x = bench.make<double>({2, 2}, {1, 2, 3, 4});
  Tensor rows = bench.empty<double>({4, 2});
  moe_permute(bench.stream(), rows, x, places);
  EXPECT_EQ(bench.read<double>(rows), (Reals{1, 2, 3, 4, 3, 4, 1, 2}));
  const Tensor gates = bench.make<double>({2, 2}, {10, 1, 100, 1000});
  const Tensor outputs = bench.make<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Tensor y = bench.empty<double>({2, 2});
  moe_combine(bench.stream(), y, outputs, gates, places);
  EXPECT_EQ(bench.read<double>(y), (Reals{71, 82, 3500, 4600}));
}

TEST(MoePermute, GradientsAreThoseOfFiniteDifferences) {
  Workbench bench;
  const Tensor places = bench.make<int32_t>({6}, {5, 0, 2, 1, 4, 3});
  Tensor x = bench.random<double>({3, 4}, "x"), rows = bench.random<double>({6, 4}, "rows");
  Tensor gates = bench.random<double>({3, 2}, "gates");
  const Tensor above = bench.random<double>({6, 4}, "above");
  const Tensor dy = bench.random<double>({3, 4}, "dy");
  Tensor dx = bench.empty<double>({3, 4}), drows = bench.empty<double>({6, 4});
  Tensor dgates = bench.empty<double>({3, 2});
  moe_permute_backward(bench.stream(), dx, above, places);
  expect_gradient(bench.stream(), x, dx, "x", [&] {
    Tensor moved = bench.empty<double>({6, 4});
    moe_permute(bench.stream(), moved, x, places);
    return dot(bench.stream(), moved, above);
  });
  moe_combine_backward(bench.stream(), drows, dgates, dy, rows, gates, places);
  const auto loss = [&] {
    Tensor y = bench.empty<double>({3, 4});
    moe_combine(bench.stream(), y, rows, gates, places);
    return dot(bench.stream(), y, dy);
  };
  expect_gradient(bench.stream(), rows, drows, "rows", loss);
  expect_gradient(bench.stream(), gates, dgates, "gates", loss);
}

TEST(MoePermute, BackwardOfCombineWorksInPlace) {
  Workbench bench;
  const Tensor places = bench.make<int32_t>({4}, {3, 0, 2, 1});
  Tensor rows = bench.random<float>({4, 5}, "rows"), out = bench.empty<float>({4, 5});
  const Tensor dy = bench.random<float>({2, 5}, "dy"), gates = bench.random<float>({2, 2}, "g");
  Tensor dgates = bench.empty<float>({2, 2}), in_place = bench.empty<float>({2, 2});
  moe_combine_backward(bench.stream(), out, dgates, dy, rows, gates, places);
  moe_combine_backward(bench.stream(), rows, in_place, dy, rows, gates, places);
  EXPECT_EQ(bench.read<float>(rows), bench.read<float>(out));
  EXPECT_EQ(bench.read<float>(in_place), bench.read<float>(dgates));
}

// Two sources, experts 1 and 2 of four are here: rows 1.1, 1.1, 1.2 of source 0, 2.2, 2.2 of the
// other, which has none for expert 1.
TEST(MoePermute, GroupsRowsOfSourcesByExpertAndBack) {
  Workbench bench;
  const Tensor counts = bench.make<int32_t>({2, 4}, {9, 2, 1, 9, 9, 0, 2, 9});
  Tensor offsets = bench.empty<int32_t>({3});
  moe_offsets(bench.stream(), offsets, counts, {1, 3});
  EXPECT_EQ(bench.read<int32_t>(offsets), (Ints{0, 2, 5}));
  const Tensor one = bench.make<int32_t>({2, 3}, {1, 2, 1, 1, 0, 2});
  const Tensor arrived = bench.make<double>({7, 1}, {110, 111, 112, 120, 210, 230, 231});
  Tensor grouped = bench.empty<double>({7, 1}), back = bench.empty<double>({7, 1});
  moe_group(bench.stream(), grouped, arrived, one, {0, 3});
  EXPECT_EQ(bench.read<double>(grouped), (Reals{110, 210, 111, 112, 120, 230, 231}));
  moe_ungroup(bench.stream(), back, grouped, one, {0, 3});
  EXPECT_EQ(bench.read<double>(back), bench.read<double>(arrived));
}

TEST(MoePermute, NoTokensIsANormalCase) {
  Workbench bench;
  Tensor places = bench.empty<int32_t>({0}), rows = bench.empty<float>({0, 4});
  Tensor y = bench.empty<float>({0, 4});
  moe_places(bench.stream(), places, bench.empty<int32_t>({0, 2}), bench.make<int32_t>({1}, {0}));
  moe_permute(bench.stream(), rows, y, places);
  moe_combine(bench.stream(), y, rows, bench.empty<float>({0, 2}), places);
}

TEST(MoePermute, ReportsABadPlace) {
  Workbench bench;
  Tensor rows = bench.empty<float>({2, 4});
  moe_permute(bench.stream(), rows, bench.empty<float>({1, 4}), bench.make<int32_t>({2}, {0, 2}));
  EXPECT_ERROR(bench.stream().check_data(), Internal, "place 2 of pair 1, there are 2");
}

TEST(MoePermute, RefusesWrongShapes) {
  Workbench bench;
  Tensor rows = bench.empty<float>({4, 4});
  EXPECT_ERROR(
      moe_permute(bench.stream(), rows, bench.empty<float>({3, 4}), bench.empty<int32_t>({4})),
      Usage, "4 places for 3 tokens");
  EXPECT_ERROR(
      moe_permute(bench.stream(), rows, bench.empty<float>({2, 5}), bench.empty<int32_t>({4})),
      Usage, "rows is f32 [4, 4], must be f32 [4, 5]");
}

}  // namespace
}  // namespace sextant

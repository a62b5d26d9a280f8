#include "ops/moe_nodes.h"

#include <gtest/gtest.h>

#include "ops/moe_capacity.h"
#include "support/expect_error.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

using Ints = std::vector<int32_t>;

// Six experts on three nodes: token 0 chooses two of node 0, token 1 one each of nodes 2 and 0, of
// token 2 one choice is dropped.
TEST(MoeNodes, ATokenCrossesOnceToEachNodeOfItsChoice) {
  Workbench bench;
  const Tensor choice = bench.make<int32_t>({3, 2}, {1, 0, 5, 1, kDropped, 3});
  Tensor nodes = bench.empty<int32_t>({3, 3});
  moe_nodes(bench.stream(), nodes, choice, 6);
  EXPECT_EQ(bench.read<int32_t>(nodes),
            (Ints{0, kDropped, kDropped, 0, kDropped, 2, kDropped, 1, kDropped}));
  Tensor local = bench.empty<int32_t>({3, 2});
  moe_local_choice(bench.stream(), local, choice, {0, 2});
  EXPECT_EQ(bench.read<int32_t>(local), (Ints{1, 0, kDropped, 1, kDropped, kDropped}));
}

TEST(MoeNodes, RowsAreCopiedToTheirPlacesAndScaled) {
  Workbench bench;
  const Tensor x = bench.make<float>({2, 2}, {1, 2, 3, 4});
  const Tensor places = bench.make<int32_t>({4}, {2, 0, kDropped, 1});
  Tensor rows = bench.make<float>({4, 2}, std::vector<float>(8, -1));
  moe_copy_rows(bench.stream(), rows, x, places, {});
  EXPECT_EQ(bench.read<float>(rows), (std::vector<float>{1, 2, 3, 4, 1, 2, -1, -1}));
  const Tensor gates = bench.make<float>({2, 2}, {0.5F, 2, 7, 10});
  moe_copy_rows(bench.stream(), rows, x, places, gates);
  EXPECT_EQ(bench.read<float>(rows), (std::vector<float>{2, 4, 30, 40, 0.5F, 1, -1, -1}));
  const Tensor choice = bench.make<int32_t>({2, 1}, {7, 8});
  Tensor sent = bench.make<int32_t>({3, 1}, {0, 0, 0});
  moe_copy_rows(bench.stream(), sent, choice, places, {});
  EXPECT_EQ(bench.read<int32_t>(sent), (Ints{7, 8, 7}));
}

TEST(MoeNodes, PlacesBeyondTheRowsAreReported) {
  Workbench bench;
  const Tensor x = bench.make<float>({1, 1}, {1});
  Tensor rows = bench.make<float>({1, 1}, {0});
  moe_copy_rows(bench.stream(), rows, x, bench.make<int32_t>({1}, {1}), {});
  EXPECT_ERROR(bench.stream().check_data(), Internal, "place 1 of pair 0, there are 1");
}

// Four ranks in nodes of two, two experts: what ranks 0 and 2 pass on, then ranks 1 and 3.
TEST(MoeNodes, CountsAreGroupedByTheRankThatPassesRowsOn) {
  Workbench bench;
  const Tensor counts = bench.make<int32_t>({4, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
  Tensor out = bench.empty<int32_t>({2, 4});
  moe_node_counts(bench.stream(), out, counts, {1, 3});
  EXPECT_EQ(bench.read<int32_t>(out), (Ints{1, 21, 2, 22, 11, 31, 12, 32}));
}

}  // namespace
}  // namespace sextant

#include "parallel/expert_ranks.h"

#include <gtest/gtest.h>

#include <array>

#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Counts = std::vector<std::vector<int32_t>>;  // by rank, by expert
constexpr int64_t kRowWidth = 3;

// The value of a row: its source, its expert and its number among those.
float row_value(int rank, int expert, int row) {
  return static_cast<float>(100 * rank + 10 * expert + row);
}

MeshShape spread(int ep, int etp = 1) {
  return {{1, 1, 1, ep * etp, 1}, ep, etp};
}

Tensor dispatch(Stream& stream, const ExpertRanks& group, const Tensor& rows, const Tensor& counts,
                std::span<const int64_t> sizes, When when = When::Now) {
  RowsInFlight flight;
  group.start_dispatch(stream, flight, rows, sizes, when);
  return group.end_dispatch(stream, flight, counts, rows.dim(0));
}

Tensor combine(Stream& stream, const ExpertRanks& group, const Tensor& rows, const Tensor& counts,
               std::span<const int64_t> sizes, int64_t pairs) {
  RowsInFlight flight;
  group.start_combine(stream, flight, rows, counts, sizes, pairs, When::Now);
  return group.end_combine(flight);
}

// Sends the rows that `counts` says, checks what arrives, adds 0.5 to it and checks what comes
// back: the sum over the ranks of etp. `counts`: by rank of the world.
void exchange(const Counts& counts, double capacity = 0, int etp = 1) {
  const int ranks = static_cast<int>(counts.size());
  const auto experts = static_cast<int64_t>(counts[0].size());
  run_ranks(ranks, [&](Communicator& world) {
    Workbench bench;
    Mesh mesh(world, spread(ranks / etp, etp));
    const ExpertRanks group(mesh, {experts, 1, capacity});
    const std::vector<int32_t>& own = counts[static_cast<size_t>(world.rank())];
    std::vector<float> sent, wanted;
    for (int e = 0; e < experts; ++e)
      for (int row = 0; row < own[static_cast<size_t>(e)]; ++row)
        sent.insert(sent.end(), kRowWidth, row_value(world.rank(), e, row));
    for (auto e = static_cast<int>(group.own().begin); e < group.own().end; ++e)
      for (const int source : expert_sources(mesh.shape(), world.rank()))
        for (int row = 0; row < counts[static_cast<size_t>(source)][static_cast<size_t>(e)]; ++row)
          wanted.insert(wanted.end(), kRowWidth, row_value(source, e, row));
    const auto pairs = static_cast<int64_t>(sent.size()) / kRowWidth;
    const Tensor all = group.all_gather_counts(bench.stream(), bench.make<int32_t>({experts}, own));
    std::vector<int64_t> sizes;
    group.read_sizes(bench.stream(), sizes, all, pairs, "layers.0.moe");
    Tensor here =
        dispatch(bench.stream(), group, bench.make<float>({pairs, kRowWidth}, sent), all, sizes);
    EXPECT_EQ(bench.read<float>(here), wanted) << "rank " << world.rank();
    for (float& value : wanted) value += 0.5F;
    copy_from_host<float>(bench.stream(), here, wanted);
    const Tensor back = combine(bench.stream(), group, here, all, sizes, pairs);
    for (float& value : sent) value = static_cast<float>(etp) * (value + 0.5F);
    EXPECT_EQ(bench.read<float>(back), sent) << "rank " << world.rank();
    if (etp > 1) return;
    // Two all-to-alls, each of the rows of other ranks.
    int64_t elsewhere = 0, from_others = 0;
    for (int64_t e = 0; e < experts; ++e)
      for (int source = 0; source < ranks; ++source) {
        const bool is_here = e >= group.own().begin && e < group.own().end;
        const int32_t rows = counts[static_cast<size_t>(source)][static_cast<size_t>(e)];
        if (!is_here && source == world.rank()) elsewhere += rows;
        if (is_here && source != world.rank()) from_others += rows;
      }
    const Traffic traffic = world.ledger().traffic.of(Operation::AllToAll);
    EXPECT_EQ(traffic.calls, 2);
    EXPECT_EQ(traffic.elements, (elsewhere + from_others) * kRowWidth) << "rank " << world.rank();
  });
}

TEST(ExpertRanks, RowsGoToTheRankOfTheirExpertAndBack) {
  exchange({{1, 2, 0, 3}, {2, 1, 3, 0}});
  exchange({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}});
}

// Experts 0 and 1 on ranks 0 and 1, the others on ranks 2 and 3; or all on both of two ranks.
TEST(ExpertRanks, RanksOfEtpGatherTheirRowsAndSumWhatComesBack) {
  exchange({{1, 2, 0, 3}, {2, 1, 3, 0}, {0, 0, 4, 2}, {1, 1, 1, 3}}, 0, 2);
  exchange({{6, 0, 0, 0}, {0, 0, 6, 0}, {0, 6, 0, 0}, {6, 0, 0, 0}}, 0, 2);
  exchange({{1, 2, 0, 3}, {6, 0, 0, 0}}, 0, 2);
  exchange({{4, 0}, {4, 0}, {0, 4}, {2, 2}}, 0, 4);
}

TEST(ExpertRanks, GatheredAndSummedRowsAreCountedForEtp) {
  run_ranks(4, [](Communicator& world) {
    Workbench bench;
    Mesh mesh(world, spread(2, 2));
    const ExpertRanks group(mesh, {2, 1});
    // Rank r has r + 1 rows, all for the second expert: that of ranks 2 and 3.
    const int32_t own = world.rank() + 1;
    const Tensor counts =
        group.all_gather_counts(bench.stream(), bench.make<int32_t>({2}, {0, own}));
    EXPECT_EQ(bench.read<int32_t>(counts), (std::vector<int32_t>{0, 1, 0, 3, 0, 2, 0, 4}));
    std::vector<int64_t> sizes;
    group.read_sizes(bench.stream(), sizes, counts, 4, "moe");
    EXPECT_EQ(sizes, world.rank() < 2    ? (std::vector<int64_t>{0, own, 0, 0, 0, 0})
                     : world.rank() == 2 ? (std::vector<int64_t>{0, 3, 1, 3, 4, 6})
                                         : (std::vector<int64_t>{0, 4, 2, 4, 4, 6}));
    Tensor rows = bench.make<float>({4, 1}, {1, 1, 1, 1});
    rows = dispatch(bench.stream(), group, rows, counts, sizes);
    combine(bench.stream(), group, rows, counts, sizes, 4);
    const TrafficTable& sent = world.ledger().traffic;
    const int64_t gathered[] = {0, 0, 4, 6}, summed[] = {0, 0, 6, 4};
    EXPECT_EQ(sent.of("etp", Operation::AllGather).elements, gathered[world.rank()]);
    EXPECT_EQ(sent.of("etp", Operation::ReduceScatter).elements, summed[world.rank()]);
    EXPECT_EQ(sent.of("etp+ep", Operation::AllGather).elements, 3 * 2);
    EXPECT_EQ(sent.of("ep", Operation::AllToAll).calls, 2);
  });
}

// Two exchanges under way at once, with other rows to other ranks, ended in the order in which they
// began or in the other one.
TEST(ExpertRanks, SeveralExchangesCanBeUnderWay) {
  for (const int etp : {1, 2})
    run_ranks(4, [&](Communicator& world) {
      Workbench bench;
      Stream& stream = bench.stream();
      Mesh mesh(world, spread(4 / etp, etp));
      const ExpertRanks group(mesh, {4, 1});
      struct Sent {
        Tensor rows, counts, arrived, back;
        std::vector<int64_t> sizes;
        RowsInFlight flight;
      };
      std::array<Sent, 2> both;
      for (int32_t i = 0; i < 2; ++i) {
        Sent& one = both[static_cast<size_t>(i)];
        std::vector<int32_t> own(4);
        own[static_cast<size_t>((world.rank() + i) % 4)] = 3 - i;
        own[static_cast<size_t>((world.rank() + 2 * i + 1) % 4)] += 1 + i;
        const int64_t pairs = 4;
        one.rows = bench.random<float>({pairs, kRowWidth}, std::to_string(4 * i + world.rank()));
        one.counts = group.all_gather_counts(stream, bench.make<int32_t>({4}, own));
        group.read_sizes(stream, one.sizes, one.counts, pairs, "moe");
        one.arrived = dispatch(stream, group, one.rows, one.counts, one.sizes);
        one.back = combine(stream, group, one.arrived, one.counts, one.sizes, pairs);
      }
      for (const bool is_reversed : {false, true}) {
        for (Sent& one : both)
          group.start_dispatch(stream, one.flight, one.rows, one.sizes, When::Later);
        for (const size_t i : {is_reversed ? 1 : 0, is_reversed ? 0 : 1}) {
          Sent& one = both[i];
          const Tensor here = group.end_dispatch(stream, one.flight, one.counts, 4);
          EXPECT_EQ(bench.read<float>(here), bench.read<float>(one.arrived));
          group.start_combine(stream, one.flight, here, one.counts, one.sizes, 4, When::Later);
        }
        for (Sent& one : both)
          EXPECT_EQ(bench.read<float>(group.end_combine(one.flight)), bench.read<float>(one.back));
      }
    });
}

TEST(ExpertRanks, AllRowsOnOneExpertAndARankWithoutRowsAreNormal) {
  exchange({{4, 0, 0, 0}, {4, 0, 0, 0}});
  exchange({{0, 0, 0, 4}, {0, 4, 0, 0}});
  exchange({{2, 0, 0, 0, 0, 0, 0, 0},
            {2, 0, 0, 0, 0, 0, 0, 0},
            {0, 0, 0, 0, 0, 0, 0, 2},
            {0, 1, 0, 1, 0, 0, 0, 0}});
}

TEST(ExpertRanks, CapacityIsAMultipleOfTheBalancedRowsAndAtMostTheWorstCase) {
  run_ranks(4, [](Communicator& world) {
    Mesh mesh(world, spread(4));
    EXPECT_EQ(ExpertRanks(mesh, {8, 2}).capacity(10), 40);  // 4 ranks x 5 tokens x 2
    EXPECT_EQ(ExpertRanks(mesh, {4, 2}).capacity(10), 20);  // one expert: once per token
    EXPECT_EQ(ExpertRanks(mesh, {8, 2, 1.25}).capacity(10), 13);
    EXPECT_EQ(ExpertRanks(mesh, {8, 2, 9}).capacity(10), 40);
    Mesh parts(world, spread(2, 2));
    EXPECT_EQ(ExpertRanks(parts, {2, 2}).capacity(10), 20);  // one expert for the same tokens
    EXPECT_EQ(ExpertRanks(parts, {8, 2, 1.25}).capacity(10), 25);
    Mesh sliced(world, spread(1, 4));
    EXPECT_EQ(ExpertRanks(sliced, {8, 2}).capacity(10), 40);  // all rows, always
    EXPECT_EQ(ExpertRanks(sliced, {8, 2, 1}).capacity(10), 40);
  });
  run_ranks(1, [](Communicator& world) {
    Mesh mesh(world, spread(1));
    EXPECT_EQ(ExpertRanks(mesh, {8, 2, 1.25}).capacity(10), 10);  // all experts are here
  });
}

// Of 10 pairs and 8 experts: at most ceil(1.25 * 10 / 8) rows for each expert from each rank, or,
// of a unit on 2 ranks, ceil(1.25 * 20 / 8) from both.
TEST(ExpertRanks, ACapacityOfExpertsBoundsTheWorstCase) {
  run_ranks(4, [](Communicator& world) {
    Mesh mesh(world, spread(4));
    const ExpertRanks each(mesh, {8, 2, 0, 1.25}), shared(mesh, {8, 2, 0, 1.25, 2}),
        wide(mesh, {8, 2, 0, 1.25, 8});
    EXPECT_EQ(each.capacity_of_expert(10), 2);
    EXPECT_EQ(each.capacity(10), 4 * 2 * 2);
    EXPECT_EQ(shared.capacity_of_expert(10), 4);
    EXPECT_EQ(shared.capacity(10), 2 * 2 * 4);
    EXPECT_EQ(wide.capacity(10), 2 * 13);  // a part of one unit
    EXPECT_EQ(ExpertRanks(mesh, {8, 2, 1, 1.25}).capacity(10), 10);
    // Ranks 0 to 3 have tokens of units of 3 on ranks 0 to 2 and 3 to 5.
    EXPECT_EQ(ExpertRanks(mesh, {8, 2, 0, 1.25, 3}).capacity(10), 2 * 2 * 5);
  });
}

// Dropped pairs have no row: those of the others come back, and memory for all.
TEST(ExpertRanks, RowsOfDroppedPairsStay) {
  run_ranks(2, [](Communicator& world) {
    Workbench bench;
    Mesh mesh(world, spread(2));
    const ExpertRanks group(mesh, {2, 1, 0, 1});
    const Tensor counts =
        group.all_gather_counts(bench.stream(), bench.make<int32_t>({2}, {1, world.rank()}));
    std::vector<int64_t> sizes;
    group.read_sizes(bench.stream(), sizes, counts, 3, "moe");
    Tensor here =
        dispatch(bench.stream(), group, bench.make<float>({3, 1}, {1, 2, 3}), counts, sizes);
    EXPECT_EQ(bench.read<float>(here),
              world.rank() == 0 ? (std::vector<float>{1, 1}) : std::vector<float>{2});
    const Tensor back = combine(bench.stream(), group, here, counts, sizes, 3);
    EXPECT_EQ(back.dim(0), 3);
    EXPECT_EQ(bench.read<float>(back.slice(0, 1 + world.rank())),
              world.rank() == 0 ? std::vector<float>{1} : (std::vector<float>{1, 2}));
  });
}

TEST(ExpertRanks, MoreRowsThanTheCapacityEndTheRunWithTheirNumber) {
  exchange({{2, 0, 0, 2}, {2, 0, 0, 2}}, 1);
  EXPECT_ERROR(exchange({{3, 0, 0, 1}, {2, 0, 0, 2}}, 1), Memory,
               "layers.0.moe: 5 rows for experts 0 to 1 of rank 0, which has memory for 4");
}

}  // namespace
}  // namespace sextant

#include "comm/phantom_world.h"

#include <gtest/gtest.h>

#include <array>

#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

TEST(PhantomWorld, HasAnyRankOfAnyWorld) {
  const ManualClock clock;
  PhantomWorld phantom(9000, 16384, clock);
  EXPECT_EQ(phantom.world().rank(), 9000);
  EXPECT_EQ(phantom.world().size(), 16384);
  const auto group = phantom.world().subgroup(std::array{8998, 9000, 1}, "tp");
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->world_rank(2), 1);
  EXPECT_ERROR((void)phantom.world().subgroup(std::array{1, 2}, "tp"), Usage,
               "is not in its group tp");
  EXPECT_ERROR((void)phantom.world().subgroup(std::array{9000, 16384}, "tp"), Usage,
               "rank 16384 in group tp: world has ranks 0 to 16383");
  EXPECT_ERROR(PhantomWorld(4, 4, clock), Usage, "rank 4 of a world of 4");
}

// The same calls on a phantom and on threads.
TEST(PhantomWorld, BooksAndRecordsWhatAWorldOfThreadsDoes) {
  struct Seen {
    TrafficTable traffic;
    Trace trace;
  };
  const auto run = [](Communicator& world, DeviceKind device) {
    Workbench bench(1, device);
    TraceRecorder recorder;
    Seen seen;
    {
      Tensor whole = bench.empty<float>({12}), part = bench.empty<float>({4});
      bench.arena().set_recorder(&recorder);
      const auto group = world.subgroup(std::array{0, 1, 2}, "shard", "dp+shard");
      Pending first =
          group->reduce_scatter(bench.stream(), part, whole, ReduceOp::Sum, When::Later);
      world.order_after(first);
      Pending second = world.all_reduce(bench.stream(), part, ReduceOp::Sum, When::Later);
      second.wait();
      first.wait();
      group->all_gather(bench.stream(), whole, part);
      if (world.rank() == 0) world.send(bench.stream(), whole, 1);
      if (world.rank() == 1) world.receive(bench.stream(), whole, 0);
      world.control().barrier();
      bench.arena().set_recorder(nullptr);
    }
    seen.traffic = world.ledger().traffic;
    seen.trace = recorder.take();
    return seen;
  };
  std::array<Seen, 3> real;
  run_ranks(3, [&](Communicator& world) {
    real[static_cast<size_t>(world.rank())] = run(world, DeviceKind::Cpu);
  });
  const ManualClock clock;
  for (int rank = 0; rank < 3; ++rank) {
    PhantomWorld phantom(rank, 3, clock);
    const Seen seen = run(phantom.world(), DeviceKind::Phantom);
    const Seen& wanted = real[static_cast<size_t>(rank)];
    EXPECT_EQ(seen.traffic, wanted.traffic);
    EXPECT_EQ(seen.trace.lanes, wanted.trace.lanes);
    ASSERT_EQ(seen.trace.ops.size(), wanted.trace.ops.size());
    for (size_t i = 0; i < seen.trace.ops.size(); ++i) {
      EXPECT_STREQ(seen.trace.ops[i].name, wanted.trace.ops[i].name);
      EXPECT_EQ(seen.trace.ops[i].sent, wanted.trace.ops[i].sent);
      EXPECT_EQ(seen.trace.ops[i].peer, wanted.trace.ops[i].peer);
    }
  }
}

TEST(PhantomWorld, LanesNameTheRanksOfTheirGroup) {
  const ManualClock clock;
  PhantomWorld phantom(3, 8, clock);
  Workbench bench(1, DeviceKind::Phantom);
  TraceRecorder recorder;
  Tensor data = bench.empty<float>({12});
  bench.arena().set_recorder(&recorder);
  const auto odd = phantom.world().subgroup(std::array{7, 5, 3, 1}, "odd");
  odd->all_reduce(bench.stream(), data, ReduceOp::Sum);
  odd->send(bench.stream(), data, 0);
  odd->receive(bench.stream(), data, 3);
  odd->send(bench.stream(), data, 3);
  odd->send(bench.stream(), data, 0);
  bench.arena().set_recorder(nullptr);
  const Trace trace = recorder.take();
  using enum TraceLane::Kind;
  const std::vector<int> ranks = {7, 5, 3, 1};
  EXPECT_EQ(trace.lanes, (std::vector<TraceLane>{{"compute"},
                                                 {"odd", Collective, "odd", ranks},
                                                 {"odd send 0", Send, "odd", ranks},
                                                 {"odd receive 3", Receive, "odd", ranks},
                                                 {"odd send 3", Send, "odd", ranks}}));
  std::vector<int> lanes, peers;
  for (const TraceOp& op : trace.ops) {
    lanes.push_back(op.lane);
    peers.push_back(op.peer);
  }
  EXPECT_EQ(lanes, (std::vector{1, 2, 3, 4, 2}));
  EXPECT_EQ(peers, (std::vector{-1, 0, 3, 3, 0}));
}

}  // namespace
}  // namespace sextant

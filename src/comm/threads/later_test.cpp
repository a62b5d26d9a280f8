// Asynchronous calls, messages, groups, and traffic statistics.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "comm/run_ranks.h"
#include "fault/deadline.h"
#include "support/on_devices.h"
#include "support/rank_values.h"
#include "support/workbench.h"

namespace sextant {
namespace {

class Later : public OnDevices {};
SXT_ON_CPU_AND_GPU(Later);
class Messages : public OnDevices {};
SXT_ON_CPU_AND_GPU(Messages);

TEST_P(Later, ManyInFlightInSeveralGroupsAllArrive) {
  run_ranks(4, [](Communicator& world) {
    Workbench bench(1, GetParam());
    const int own = world.rank();
    const auto row =
        world.subgroup(ranks_where(4, [&](int rank) { return rank / 2 == own / 2; }), "row");
    const auto column =
        world.subgroup(ranks_where(4, [&](int rank) { return rank % 2 == own % 2; }), "column");
    for (int round = 0; round < 20; ++round) {
      std::vector<Tensor> tensors;
      std::vector<Pending> pending;
      for (int i = 0; i < 12; ++i) {
        Communicator& group = i % 3 == 0 ? world : i % 3 == 1 ? *row : *column;
        tensors.push_back(bench.make<float>({100}, std::vector<float>(100, 1.0F)));
        pending.push_back(
            group.all_reduce(bench.stream(), tensors.back(), ReduceOp::Sum, When::Later));
      }
      // A When::Now call overtakes them.
      int64_t sum = 1;
      row->control().all_reduce(std::span(&sum, 1), ReduceOp::Sum);
      EXPECT_EQ(sum, 2);
      for (size_t i = pending.size(); i-- > 0;) {
        pending[i].wait();
        EXPECT_EQ(bench.read<float>(tensors[i])[99], i % 3 == 0 ? 4 : 2);
      }
    }
  });
}

TEST_P(Later, AFollowerOfAnotherGroupReadsWhatAnEarlierOneWrote) {
  run_ranks(4, [](Communicator& world) {
    Workbench bench(1, GetParam());
    const int own = world.rank();
    const auto row =
        world.subgroup(ranks_where(4, [&](int rank) { return rank / 2 == own / 2; }), "row");
    const auto column =
        world.subgroup(ranks_where(4, [&](int rank) { return rank % 2 == own % 2; }), "column");
    for (int round = 0; round < 50; ++round) {
      Tensor data =
          bench.make<int64_t>({3000}, std::vector<int64_t>(3000, int64_t{1} << world.rank()));
      Pending first = row->all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
      column->order_after(first);
      Pending second = column->all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
      second.wait();
      first.wait();
      EXPECT_EQ(bench.read<int64_t>(data), std::vector<int64_t>(3000, 15));
    }
  });
}

TEST_P(Later, OneRankMayWaitWhileTheOthersCallNow) {
  run_ranks(3, [](Communicator& world) {
    Workbench bench(1, GetParam());
    Tensor data = bench.make<float>({10}, std::vector<float>(10, 1.0F));
    world
        .all_reduce(bench.stream(), data, ReduceOp::Sum,
                    world.rank() == 1 ? When::Later : When::Now)
        .wait();
    EXPECT_EQ(bench.read<float>(data)[9], 3);
  });
}

TEST_P(Later, APendingThatIsDroppedOrMovedStillWaits) {
  run_ranks(2, [](Communicator& world) {
    Workbench bench(1, GetParam());
    Tensor a = bench.make<float>({10}, std::vector<float>(10, 1.0F));
    Tensor b = bench.make<float>({10}, std::vector<float>(10, 1.0F));
    {
      Pending kept = world.all_reduce(bench.stream(), a, ReduceOp::Sum, When::Later);
      Pending other = world.all_reduce(bench.stream(), b, ReduceOp::Sum, When::Later);
      EXPECT_TRUE(static_cast<bool>(kept));
      kept = std::move(other);
      EXPECT_EQ(bench.read<float>(a)[0], 2);
      EXPECT_FALSE(static_cast<bool>(other));  // NOLINT: what was moved from is empty
    }
    EXPECT_EQ(bench.read<float>(b)[0], 2);
    Pending done = world.all_reduce(bench.stream(), a, ReduceOp::Sum, When::Now);
    EXPECT_FALSE(static_cast<bool>(done));
    done.wait();
  });
}

TEST_P(Messages, GoRoundARingBesideTheRanks) {
  for (const int ranks : {2, 3, 5, 8})
    run_ranks(ranks, [](Communicator& world) {
      Workbench bench(1, GetParam());
      const int n = world.size(), next = (world.rank() + 1) % n,
                before = (world.rank() + n - 1) % n;
      Tensor held = bench.make<int64_t>({500}, std::vector<int64_t>(500, world.rank()));
      Tensor coming = bench.empty<int64_t>({500});
      for (int step = 0; step < 2 * n; ++step) {
        Pending out = world.send(bench.stream(), held, next, When::Later);
        Pending in = world.receive(bench.stream(), coming, before, When::Later);
        in.wait();
        out.wait();
        std::swap(held, coming);
        EXPECT_EQ(bench.read<int64_t>(held)[499], (world.rank() + 2 * n - step - 1) % n);
      }
    });
}

TEST_P(Messages, BetweenTwoRanksArriveInTheOrderSent) {
  run_ranks(2, [](Communicator& world) {
    Workbench bench(1, GetParam());
    std::vector<Tensor> tensors;
    std::vector<Pending> pending;
    for (int i = 0; i < 30; ++i) {
      const When when = i % 4 == 3 ? When::Now : When::Later;
      tensors.push_back(bench.make<int64_t>({7}, std::vector<int64_t>(7, world.rank() * 100 + i)));
      pending.push_back(world.rank() == 1 ? world.send(bench.stream(), tensors.back(), 0, when)
                                          : world.receive(bench.stream(), tensors.back(), 1, when));
    }
    for (size_t i = pending.size(); i-- > 0;) {
      pending[i].wait();
      EXPECT_EQ(bench.read<int64_t>(tensors[i])[6], 100 + static_cast<int64_t>(i));
    }
  });
}

// Rank 0's collective waits for rank 1, which first waits for the message behind it.
TEST_P(Messages, AreNotHeldUpByACollectiveThatWaits) {
  for (int round = 0; round < 50; ++round)
    run_ranks(2, [](Communicator& world) {
      Workbench bench(1, GetParam());
      Tensor data = bench.make<float>({10}, std::vector<float>(10, 1.0F));
      Tensor message = bench.make<float>({10}, std::vector<float>(10, 5.0F + world.rank()));
      if (world.rank() == 0) {
        Pending sum = world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
        Pending sent = world.send(bench.stream(), message, 1, When::Later);
        sum.wait();
        sent.wait();
      } else {
        world.receive(bench.stream(), message, 0, When::Later).wait();
        EXPECT_EQ(bench.read<float>(message)[9], 5);
        world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later).wait();
      }
      EXPECT_EQ(bench.read<float>(data)[0], 2);
    });
}

TEST(Guarded, MemoryIsOpenWhileACallNeedsItAndNotAfter) {
  run_ranks(3, [](Communicator& world) {
    Workbench bench(1, DeviceKind::Guarded);
    Stream& stream = bench.stream();
    const int n = world.size(), next = (world.rank() + 1) % n, before = (world.rank() + n - 1) % n;
    for (const When when : {When::Now, When::Later}) {
      Tensor data = bench.make<float>({99}, std::vector<float>(99, 1.0F));
      Tensor whole = bench.make<float>({99}, std::vector<float>(99, 2.0F));
      Tensor part = bench.make<float>({33}, std::vector<float>(33, 3.0F));
      Tensor in = bench.empty<float>({33});
      Pending first = world.all_reduce(stream, data, ReduceOp::Sum, when);
      Pending second = world.all_gather(stream, whole, part, when);
      Pending out = world.send(stream, part, next, When::Later);
      Pending coming = world.receive(stream, in, before, When::Later);
      first.wait();
      coming.wait();
      out.wait();
      second.wait();
      EXPECT_EQ(bench.read<float>(data)[98], 3);
      EXPECT_EQ(bench.read<float>(whole)[98], 3);
      EXPECT_EQ(bench.read<float>(in)[32], 3);
    }
  });
}

TEST(Subgroup, MakesRowsAndColumnsOfAGrid) {
  run_ranks(6, [](Communicator& world) {
    const int x = world.rank() % 3, y = world.rank() / 3;
    const auto row = world.subgroup(ranks_where(6, [&](int rank) { return rank / 3 == y; }), "row");
    const auto column = world.subgroup(std::array{x + 3, x}, "column");  // upside down
    EXPECT_EQ(row->size(), 3);
    EXPECT_EQ(row->rank(), x);
    EXPECT_EQ(row->name(), "row");
    EXPECT_EQ(row->world_rank(2), 3 * y + 2);
    EXPECT_EQ(column->size(), 2);
    EXPECT_EQ(column->rank(), 1 - y);
    EXPECT_EQ(column->world_rank(0), 3 + x);
    int64_t sum = world.rank();
    row->control().all_reduce(std::span(&sum, 1), ReduceOp::Sum);
    EXPECT_EQ(sum, 9 * y + 3);
    column->control().all_reduce(std::span(&sum, 1), ReduceOp::Sum);
    EXPECT_EQ(sum, 15);
    const auto alone = row->subgroup(std::array{row->rank()}, "alone");
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(&alone->ledger(), &world.ledger());
    const auto again = row->subgroup(std::array{0, 1, 2}, "again");
    EXPECT_EQ(again->size(), 3);
    again->control().barrier();
  });
}

TEST(Host, ValuesGoToAllRanksOrComeTogether) {
  run_ranks(4, [](Communicator& world) {
    std::array<double, 2> data = {1.5, static_cast<double>(world.rank())};
    world.control().all_reduce(std::span<double>(data), ReduceOp::Max);
    EXPECT_EQ(data, (std::array<double, 2>{1.5, 3}));
    EXPECT_EQ(world.control().broadcast_text(world.rank() == 2 ? "the plan" : "", 2), "the plan");
    EXPECT_EQ(world.control().broadcast_text("", 0), "");
    const std::string own(static_cast<size_t>(world.rank()), static_cast<char>('a' + world.rank()));
    const std::array<int64_t, 4> sizes = {0, 1, 2, 3};
    std::string all(world.rank() == 1 ? 6 : 0, ' ');
    world.control().gather(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(own)),
                           sizes, 1);
    EXPECT_EQ(all, world.rank() == 1 ? "bccddd" : "");
    EXPECT_EQ(world.ledger().traffic.total().calls, 0);
    EXPECT_EQ(world.ledger().control.calls, 6);
  });
}

TEST(Ledger, BooksWhatARankSendsByOperation) {
  run_ranks(4, [](Communicator& world) {
    Workbench bench;
    Tensor data = bench.make<bf16>({12}, std::vector<bf16>(12));
    Tensor part = bench.make<bf16>({3}, std::vector<bf16>(3));
    world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later).wait();
    world.reduce_scatter(bench.stream(), part, data, ReduceOp::Sum);
    world.reduce_scatter(bench.stream(), part, data, ReduceOp::Sum);
    world.control().barrier();
    const Ledger& ledger = world.ledger();
    const auto of = [&](Operation operation) { return ledger.traffic.of(operation); };
    EXPECT_EQ(of(Operation::AllReduce).elements, 18);
    EXPECT_EQ(of(Operation::AllReduce).bytes, 36);
    EXPECT_EQ(of(Operation::ReduceScatter).calls, 2);
    EXPECT_EQ(of(Operation::ReduceScatter).elements, 18);
    EXPECT_EQ(ledger.traffic.total().bytes, 72);
    EXPECT_EQ(ledger.control.calls, 1);
    EXPECT_GT(ledger.busy_s.load(), 0);
    EXPECT_GT(ledger.exposed_s, 0);
    // By axis and operation, without that of host values.
    const auto& by_operation = ledger.exposed_by_axis[0];
    const auto exposed = [&](Operation operation) {
      return by_operation[static_cast<size_t>(operation)];
    };
    EXPECT_GT(exposed(Operation::AllReduce), 0);
    EXPECT_GT(exposed(Operation::ReduceScatter), 0);
    EXPECT_EQ(exposed(Operation::AllToAll), 0);
    EXPECT_LE(exposed(Operation::AllReduce) + exposed(Operation::ReduceScatter), ledger.exposed_s);
  });
}

// The side that posts second has its progress thread copy the message.
TEST(Ledger, CountsAMessageThatTravelsWhileNobodyWaitsForIt) {
  run_ranks(2, [](Communicator& world) {
    Workbench bench;
    Tensor data = bench.make<float>({12}, std::vector<float>(12));
    Ledger& ledger = world.ledger();
    if (world.rank() == 0) {
      Pending sent = world.send(bench.stream(), data, 1, When::Later);
      world.control().barrier();
      world.control().barrier();
      sent.wait();
      return;
    }
    world.control().barrier();
    ledger.reset();
    Pending received = world.receive(bench.stream(), data, 0, When::Later);
    const Deadline deadline(ledger.clock, 60);
    while (ledger.busy_s.load() == 0 && !deadline.is_over()) std::this_thread::yield();
    EXPECT_GT(ledger.busy_s.load(), 0);
    EXPECT_EQ(ledger.exposed_s, 0);
    world.control().barrier();
    received.wait();
  });
}

TEST(Ledger, RecordsCallsAndTracesThem) {
  SpanLog spans;
  run_ranks(2,
            [](Communicator& world) {
              Workbench bench;
              Tensor data = bench.empty<float>({12});
              const auto dp = world.subgroup(std::array{0, 1}, "dp");
              dp->all_reduce(bench.stream(), data, ReduceOp::Sum);
              dp->broadcast(bench.stream(), data, 1, When::Later).wait();
              const std::vector<Event> events = world.ledger().recorder.last(2);
              ASSERT_EQ(events.size(), 2U);
              EXPECT_EQ(std::string(events[1].operation), "broadcast");
              EXPECT_EQ(std::string(events[1].group.data()), "dp");
              EXPECT_EQ(events[1].sequence, 2);
              EXPECT_EQ(events[1].elements, 12);
              EXPECT_GT(events[1].begun, 0);
              EXPECT_GE(events[1].ended, events[1].begun);
            },
            {.spans = &spans});
  std::map<std::string, int> counts;
  for (const Span& span : spans.take()) {
    EXPECT_GE(span.end, span.begin);
    ++counts[std::string(span.kind) + " " + std::to_string(span.lane) + " " + span.name];
  }
  EXPECT_EQ(counts["comm 0 all_reduce dp #1"], 2);
  EXPECT_EQ(counts["comm 1 broadcast dp #2"], 2);
  EXPECT_EQ(counts["wait 0 broadcast dp #2"], 2);
}

}  // namespace
}  // namespace sextant

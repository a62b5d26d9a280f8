// Calls that are posted as copies: ranks are many of them apart, and none may be lost or written
// over.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/shared_clock.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int kSome = 80;  // more calls than a lane has slots

;

// What call number `call` carries from a rank; whole numbers, so that sums are exact.
std::vector<float> values_of(int rank, int call, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((rank + 1) * 1000 + call * 10 % 997 + i));
  return values;
}

std::vector<float> sum_of(int ranks, int call, int64_t count) {
  std::vector<float> sum(static_cast<size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = values_of(rank, call, count);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

// One rank of a world that makes small calls one after another and looks at every result.
class Caller {
 public:
  explicit Caller(Communicator& world) : world_(world) {}

  void broadcast(int call, int root, When when = When::Now) {
    Tensor data = bench_.make<float>({kCount}, values_of(world_.rank(), call, kCount));
    world_.broadcast(bench_.stream(), data, root, when).wait();
    ASSERT_EQ(bench_.read<float>(data), values_of(root, call, kCount)) << "broadcast " << call;
  }

  void all_reduce(int call, When when = When::Now) {
    Tensor data = bench_.make<float>({kCount}, values_of(world_.rank(), call, kCount));
    world_.all_reduce(bench_.stream(), data, ReduceOp::Sum, when).wait();
    ASSERT_EQ(bench_.read<float>(data), sum_of(world_.size(), call, kCount)) << "sum " << call;
  }

  void all_to_all(int call) {
    const int64_t part = 3, count = part * world_.size();
    Tensor in = bench_.make<float>({count}, values_of(world_.rank(), call, count));
    Tensor out = bench_.empty<float>({count});
    world_.all_to_all(bench_.stream(), out, in);
    const std::vector<float> got = bench_.read<float>(out);
    for (int peer = 0; peer < world_.size(); ++peer) {
      const std::vector<float> sent = values_of(peer, call, count);
      for (int64_t i = 0; i < part; ++i)
        ASSERT_EQ(got[static_cast<size_t>(peer * part + i)],
                  sent[static_cast<size_t>(world_.rank() * part + i)])
            << "all_to_all " << call;
    }
  }

  void dawdle(int call) {  // so that ranks take turns being ahead
    if ((call + 3 * world_.rank()) % 7 == 0)
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
  }

 private:
  static constexpr int64_t kCount = 19;
  Communicator& world_;
  Workbench bench_;
};

class SmallCalls : public testing::TestWithParam<int> {};

TEST_P(SmallCalls, OfAllKindsInLongRowsArriveWhole) {
  run_ranks(GetParam(), [](Communicator& world) {
    Caller caller(world);
    for (int call = 0; call < 720; ++call) {
      caller.dawdle(call);
      // Long rows of broadcasts from one root, then from all in turn, with others in between.
      const int row = call / kSome;
      if (row % 3 == 0) caller.broadcast(call, row % world.size());
      if (row % 3 == 1) caller.broadcast(call, call % world.size());
      if (row % 3 == 2 && call % 2 == 0) caller.all_reduce(call);
      if (row % 3 == 2 && call % 2 == 1) caller.all_to_all(call);
      if (call % 17 == 0) caller.all_reduce(call);
      if (call % 23 == 0) world.control().barrier();
    }
  });
}

TEST_P(SmallCalls, MayBeMadeNowOnSomeRanksAndLaterOnOthers) {
  run_ranks(GetParam(), [](Communicator& world) {
    Caller caller(world);
    for (int call = 0; call < 400; ++call) {
      caller.dawdle(call);
      const When when = (call / 5 + world.rank()) % 3 == 0 ? When::Later : When::Now;
      if (call % 4 == 3)
        caller.all_reduce(call, when);
      else
        caller.broadcast(call, call / kSome % world.size(), when);
    }
  });
}

TEST_P(SmallCalls, OvertakeOnesThatStillRunBesideTheRank) {
  run_ranks(GetParam(), [](Communicator& world) {
    Workbench bench;
    Caller caller(world);
    for (int round = 0; round < 5; ++round) {
      Tensor data = bench.make<float>({50000}, std::vector<float>(50000, 1));
      Pending pending = world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
      for (int call = 0; call < kSome; ++call) caller.broadcast(call, round % world.size());
      pending.wait();
      EXPECT_EQ(bench.read<float>(data)[49999], static_cast<float>(world.size()));
    }
  });
}

TEST_P(SmallCalls, HaveTheBitsOfLargeOnes) {
  run_ranks(GetParam(), [](Communicator& world) {
    Workbench bench;
    const int64_t count = 13 * world.size(), large = 5000;
    const Random random(3, std::to_string(world.rank()));
    std::vector<float> values;
    for (int64_t i = 0; i < large; ++i)
      values.push_back(static_cast<float>(random.normal(static_cast<uint64_t>(i))));
    Tensor whole = bench.make<float>({large}, values);
    values.resize(static_cast<size_t>(count));
    Tensor in = bench.make<float>({count}, values), data = bench.make<float>({count}, values);
    Tensor part = bench.empty<float>({13});
    world.all_reduce(bench.stream(), whole, ReduceOp::Sum);
    world.all_reduce(bench.stream(), data, ReduceOp::Sum);
    world.reduce_scatter(bench.stream(), part, in, ReduceOp::Sum);
    const std::vector<float> right = bench.read<float>(whole);
    EXPECT_EQ(std::memcmp(bench.read<float>(data).data(), right.data(),
                          static_cast<size_t>(count) * sizeof(float)),
              0);
    EXPECT_EQ(std::memcmp(bench.read<float>(part).data(), right.data() + 13 * world.rank(),
                          13 * sizeof(float)),
              0);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SmallCalls, testing::Values(2, 3, 4, 8),
                         testing::PrintToStringParamName());

// What every rank of three hears of it, in that call or the next.
std::string error_of(const std::function<void(Communicator&, Workbench&)>& f) {
  std::array<std::string, 3> errors;
  run_ranks(3, [&](Communicator& world) {
    Workbench bench;
    try {
      f(world, bench);
      world.control().barrier();
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Peer);
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_EQ(errors[0], errors[2]);
  return errors[0];
}

TEST(SmallMismatch, OfRootsThatWaitForNobodyIsToldToAllRanks) {
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(error_of([](Communicator& world, Workbench& bench) {
                Tensor data = bench.empty<float>({4});
                world.broadcast(bench.stream(), data, world.rank() == 1 ? 1 : 0);
              }),
              "group world, call 1: rank 0, 2 made broadcast of 4 f32 from 0; "
              "rank 1 made broadcast of 4 f32 from 1");
}

TEST(SmallMismatch, OfABroadcastWithAnythingElseIsToldToAllRanks) {
  for (const int64_t count : {4, 4000})
    EXPECT_EQ(error_of([&](Communicator& world, Workbench& bench) {
                Tensor data = bench.empty<float>({world.rank() == 2 ? count : 4});
                if (world.rank() == 2)
                  world.all_reduce(bench.stream(), data, ReduceOp::Max);
                else
                  world.broadcast(bench.stream(), data, 0);
              }),
              concat("group world, call 1: rank 0, 1 made broadcast of 4 f32 from 0; "
                     "rank 2 made all_reduce max of ",
                     count, " f32"));
}

TEST(SmallMismatch, WithALargeCallIsToldAndLeavesTheGroupUsable) {
  run_ranks(3, [](Communicator& world) {
    Workbench bench;
    Tensor data = bench.empty<float>({world.rank() == 1 ? 40000 : 4});
    EXPECT_ERROR(world.all_reduce(bench.stream(), data, ReduceOp::Sum), Peer,
                 "rank 0, 2 made all_reduce sum of 4 f32; rank 1 made all_reduce sum of 40000 f32");
    Caller(world).all_reduce(1);
  });
}

TEST(SmallBroadcast, ARootThatIsTooFarAheadNamesThoseWhoDidNotCome) {
  SharedClock clock;
  ThreadWorld ranks(3, clock, {.timeout_s = 60});
  std::atomic<bool> over{false};
  std::atomic<int> under_way{0};
  EXPECT_ERROR(ranks.run([&](Communicator& world) {
    Workbench bench;
    Tensor data = bench.empty<float>({4});
    try {
      for (int call = 0; call < (world.rank() == 0 ? kSome : 10) && world.rank() != 2; ++call) {
        world.broadcast(bench.stream(), data, 0);
        if (call == 9) ++under_way;
      }
    } catch (const Error&) {
      over = true;
      throw;
    }
    while (!over) {
      if (world.rank() == 2 && under_way == 2) clock.advance();
      std::this_thread::yield();
    }
  }),
               Peer, "call 1: rank 2 did not call broadcast of 4 f32 from 0 within 60 s");
}

TEST(SmallBroadcast, ThatARankFinishedWithoutIsReportedThoughItsRootWaitedForNobody) {
  EXPECT_ERROR(run_ranks(3,
                         [](Communicator& world) {
                           Workbench bench;
                           Tensor data = bench.empty<float>({4});
                           if (world.rank() != 2) world.broadcast(bench.stream(), data, 0);
                         }),
               Peer, "call 1: rank 2 has finished and will not call broadcast of 4 f32 from 0");
}

}  // namespace
}  // namespace sextant

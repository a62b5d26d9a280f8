// Ranks that make another call, time out, fail or finish early.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/on_devices.h"
#include "support/shared_clock.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// What each rank threw from f, "" if nothing; f is run by all of them.
std::vector<std::string> errors_of(DeviceKind device, int ranks,
                                   const std::function<void(Communicator&, Workbench&)>& f) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& world) {
    Workbench bench(1, device);
    try {
      f(world, bench);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Peer) << error.what();
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

void expect_all(const std::vector<std::string>& errors, const std::string& text) {
  for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], text) << rank;
}

class Mismatch : public OnDevices {};
SXT_ON_CPU_AND_GPU(Mismatch);

TEST_P(Mismatch, OfTheOperationIsToldToAllRanksAndNothingIsWritten) {
  for (const When when : {When::Now, When::Later}) {
    const auto errors = errors_of(GetParam(), 4, [&](Communicator& world, Workbench& bench) {
      world.control().barrier();
      Tensor data = bench.make<float>({24}, std::vector<float>(24, 1));
      Tensor whole = bench.make<float>({12}, std::vector<float>(12, 1));
      try {
        if (world.rank() == 2)
          world.all_gather(bench.stream(), whole, whole.slice(0, 3), when).wait();
        else
          world.all_reduce(bench.stream(), data, ReduceOp::Sum, when).wait();
      } catch (const Error&) {
        EXPECT_EQ(bench.read<float>(data), std::vector<float>(24, 1));
        EXPECT_EQ(bench.read<float>(whole), std::vector<float>(12, 1));
        throw;
      }
    });
    expect_all(errors,
               "group world, call 2: rank 0, 1, 3 made all_reduce sum of 24 f32; "
               "rank 2 made all_gather of 12 f32");
  }
}

TEST_P(Mismatch, OfTheCountIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 3, [](Communicator& world, Workbench& bench) {
    Tensor data = bench.empty<float>({world.rank() == 1 ? 5 : 4});
    world.all_reduce(bench.stream(), data, ReduceOp::Sum);
  });
  expect_all(errors,
             "group world, call 1: rank 0, 2 made all_reduce sum of 4 f32; "
             "rank 1 made all_reduce sum of 5 f32");
}

TEST_P(Mismatch, OfTheTypeIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 2, [](Communicator& world, Workbench& bench) {
    Tensor data = world.rank() == 0 ? bench.empty<float>({4}) : bench.empty<int32_t>({4});
    world.broadcast(bench.stream(), data, 0);
    world.control().barrier();  // the root of a small broadcast does not wait: it throws here
  });
  expect_all(errors,
             "group world, call 1: rank 0 made broadcast of 4 f32 from 0; "
             "rank 1 made broadcast of 4 i32 from 0");
}

TEST_P(Mismatch, OfTheRootIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 3, [](Communicator& world, Workbench& bench) {
    Tensor data = bench.empty<float>({4});
    world.reduce(bench.stream(), data, ReduceOp::Max, world.rank() == 2 ? 1 : 0);
  });
  expect_all(errors,
             "group world, call 1: rank 0, 1 made reduce max of 4 f32 to 0; "
             "rank 2 made reduce max of 4 f32 to 1");
}

TEST_P(Mismatch, OfTheFoldIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 2, [](Communicator& world, Workbench& bench) {
    Tensor data = bench.empty<float>({4});
    world.all_reduce(bench.stream(), data, world.rank() == 0 ? ReduceOp::Sum : ReduceOp::Min);
  });
  expect_all(errors,
             "group world, call 1: rank 0 made all_reduce sum of 4 f32; "
             "rank 1 made all_reduce min of 4 f32");
}

TEST_P(Mismatch, OfTheCutIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 3, [](Communicator& world, Workbench& bench) {
    const std::array<int64_t, 3> sizes =
        world.rank() == 0 ? std::array<int64_t, 3>{1, 2, 3} : std::array<int64_t, 3>{1, 3, 2};
    const auto own = sizes[static_cast<size_t>(world.rank())];
    Tensor in = bench.empty<float>({6}), out = bench.empty<float>({own});
    world.reduce_scatter(bench.stream(), out, in, ReduceOp::Sum, When::Now, Into::Replace,
                         SplitSizes(sizes));
  });
  expect_all(errors,
             "group world, call 1: rank 0 made reduce_scatter sum of 6 f32 in parts 1 2 3; "
             "rank 1, 2 made reduce_scatter sum of 6 f32 in parts 1 3 2");
}

TEST_P(Mismatch, OfOnePairOfAnAllToAllIsToldToAllRanks) {
  const auto errors = errors_of(GetParam(), 3, [](Communicator& world, Workbench& bench) {
    const std::array<int64_t, 3> send = {2, 2, 2};
    const std::array<int64_t, 3> receive =
        world.rank() == 1 ? std::array<int64_t, 3>{2, 2, 1} : std::array<int64_t, 3>{2, 2, 2};
    Tensor in = bench.empty<float>({6}), out = bench.empty<float>({world.rank() == 1 ? 5 : 6});
    world.all_to_all(bench.stream(), out, in, When::Now, SplitSizes(send), SplitSizes(receive));
  });
  expect_all(errors,
             "group world, call 1: rank 0, 2 made all_to_all of 6 f32 in parts 2 2 2 for 6 in "
             "parts 2 2 2; rank 1 made all_to_all of 6 f32 in parts 2 2 2 for 5 in parts 2 2 1");
}

TEST_P(Mismatch, OfAMessageIsToldToBothEnds) {
  for (const When when : {When::Now, When::Later}) {
    const auto errors = errors_of(GetParam(), 3, [&](Communicator& world, Workbench& bench) {
      Tensor data = bench.empty<float>({12}), other = bench.empty<int32_t>({10});
      if (world.rank() == 0) world.send(bench.stream(), data, 2, when).wait();
      if (world.rank() == 2) world.receive(bench.stream(), other, 0, when).wait();
    });
    const std::string text =
        "group world, message 1: rank 0 made send of 12 f32 to 2; "
        "rank 2 made receive of 10 i32 from 0";
    EXPECT_EQ(errors[0], text);
    EXPECT_EQ(errors[1], "");
    EXPECT_EQ(errors[2], text);
  }
}

TEST_P(Mismatch, LeavesTheGroupUsable) {
  run_ranks(3, [](Communicator& world) {
    Workbench bench(1, GetParam());
    Tensor data = bench.empty<float>({world.rank() == 1 ? 5 : 4});
    EXPECT_ERROR(world.all_reduce(bench.stream(), data, ReduceOp::Sum), Peer,
                 "group world, call 1: ");
    int64_t one = 1;
    world.control().all_reduce(std::span(&one, 1), ReduceOp::Sum);
    EXPECT_EQ(one, 3);
  });
}

TEST(Deadline, NamesThoseWhoDidNotComeAndWhatTheyDidLast) {
  SharedClock clock;
  ThreadWorld ranks(4, clock, {.timeout_s = 60});
  std::array<std::string, 4> errors;
  std::atomic<int> past{0}, coming{0}, over{0};
  ranks.run([&](Communicator& world) {
    const auto pair = world.subgroup(std::array{world.rank() % 2, world.rank() % 2 + 2}, "pair");
    pair->control().barrier();
    ++past;
    while (past < 4) std::this_thread::yield();  // time stands still until then
    Workbench bench;
    Tensor data = bench.empty<float>({8});
    if (world.rank() % 2 == 1) ++coming;
    while (world.rank() % 2 == 0 && over < 2) {
      if (coming == 2) clock.advance();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();  // the other two get there
    }
    try {
      world.all_reduce(bench.stream(), data, ReduceOp::Sum);
    } catch (const Error& error) {
      ++over;
      EXPECT_EQ(error.fault(), Fault::Peer);
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  const std::string start =
      "group world, call 1: rank 0, 2 did not call all_reduce sum of 8 f32 within 60 s; rank ";
  EXPECT_EQ(errors[0].substr(0, start.size()), start);
  EXPECT_NE(errors[0].find("; rank 2 last: barrier #1 of 0 i32 over pair: done "),
            std::string::npos)
      << errors[0];
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
}

TEST(Deadline, NamesTheRanksOfTheWorldToo) {
  SharedClock clock;
  ThreadWorld ranks(4, clock, {.timeout_s = 60});
  std::atomic<bool> over{false};
  EXPECT_ERROR(ranks.run([&](Communicator& world) {
    const auto half =
        world.subgroup(std::array{world.rank() / 2 * 2, world.rank() / 2 * 2 + 1}, "half");
    while (world.rank() != 2 && !over) {
      clock.advance();
      std::this_thread::yield();
    }
    try {
      if (world.rank() == 2) half->control().barrier();
    } catch (const Error&) {
      over = true;
      throw;
    }
  }),
               Peer,
               "rank 2: group half, call 1: rank 1 (world 3) did not call barrier within 60 s");
}

class DeadlineOfLater : public OnDevices {};
SXT_ON_CPU_AND_GPU(DeadlineOfLater);

TEST_P(DeadlineOfLater, HoldsForCollectivesAndForMessages) {
  for (const Operation operation : {Operation::AllReduce, Operation::Send}) {
    SharedClock clock;
    ThreadWorld ranks(2, clock, {.timeout_s = 60});
    std::atomic<bool> over{false};
    EXPECT_ERROR(ranks.run([&](Communicator& world) {
      Workbench bench(1, GetParam());
      Tensor data = bench.empty<float>({8});
      while (world.rank() == 1 && !over) {
        clock.advance();
        std::this_thread::yield();
      }
      if (world.rank() == 1) return;
      Pending pending = operation == Operation::Send
                            ? world.send(bench.stream(), data, 1, When::Later)
                            : world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
      try {
        pending.wait();
      } catch (const Error&) {
        over = true;
        throw;
      }
    }),
                 Peer, "1: rank 1 did not call");
  }
}

class Abort : public OnDevices {};
SXT_ON_CPU_AND_GPU(Abort);

TEST_P(Abort, EndsCurrentAndLaterCallsOfAllWithTheReason) {
  const auto errors = errors_of(GetParam(), 4, [](Communicator& world, Workbench& bench) {
    const auto pair =
        world.subgroup(std::array{world.rank() / 2 * 2, world.rank() / 2 * 2 + 1}, "pair");
    Tensor data = bench.empty<float>({8});
    if (world.rank() == 0) {
      world.abort("the disk is full");
    } else if (world.rank() == 1) {
      EXPECT_ERROR(pair->receive(bench.stream(), data, 0), Peer, "the disk is full");
      pair->control().barrier();
    } else {
      EXPECT_ERROR(world.control().barrier(), Peer, "the disk is full");
      pair->all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later).wait();
    }
  });
  EXPECT_EQ(errors[0], "");
  for (const size_t rank : {1, 2, 3}) EXPECT_EQ(errors[rank], "rank 0 aborted: the disk is full");
}

TEST(RunRanks, ThrowsWhatTheFailedRankThrewAndNotItsEcho) {
  for (int round = 0; round < 20; ++round)
    EXPECT_ERROR(run_ranks(5,
                           [](Communicator& world) {
                             if (world.rank() == 3)
                               SXT_FAIL(Data, "tokens.bin is split_sizes short");
                             world.control().barrier();
                             ADD_FAILURE() << "the barrier let rank " << world.rank() << " through";
                           }),
                 Data, "rank 3: tokens.bin is split_sizes short");
}

TEST(RunRanks, TellsTheOthersWhoFailed) {
  std::array<std::string, 3> errors;
  EXPECT_ERROR(run_ranks(3,
                         [&](Communicator& world) {
                           if (world.rank() == 1) throw std::runtime_error("no idea");
                           try {
                             world.control().barrier();
                           } catch (const Error& error) {
                             errors[static_cast<size_t>(world.rank())] = error.what();
                             throw;
                           }
                         }),
               Internal, "rank 1: no idea");
  EXPECT_EQ(errors[0], "rank 1 failed: no idea");
  EXPECT_EQ(errors[2], "rank 1 failed: no idea");
}

TEST(RunRanks, OneRankFailsInItsOwnWords) {
  EXPECT_ERROR(run_ranks(1, [](Communicator&) { SXT_FAIL(Config, "no such model"); }), Config,
               "no such model");
}

TEST(RunRanks, ARankThatReturnsWhileOthersWaitForItIsReportedAtOnce) {
  // Far from the deadline, or the test would not end.
  EXPECT_ERROR(run_ranks(4,
                         [](Communicator& world) {
                           world.control().barrier();
                           if (world.rank() != 2) world.control().barrier();
                         }),
               Peer, "group world, call 2: rank 2 has finished and will not call barrier");
  EXPECT_ERROR(run_ranks(2,
                         [](Communicator& world) {
                           Workbench bench;
                           Tensor data = bench.empty<float>({8});
                           if (world.rank() == 0) world.receive(bench.stream(), data, 1);
                         }),
               Peer, "message 1: rank 1 has finished and will not call receive of 8 f32 from 1");
}

TEST(RunRanks, AWorldCanBeRunAgain) {
  const SystemClock clock;
  ThreadWorld ranks(3, clock);
  for (int round = 0; round < 3; ++round)
    ranks.run([&](Communicator& world) {
      int64_t sum = 1;
      world.control().all_reduce(std::span(&sum, 1), ReduceOp::Sum);
      EXPECT_EQ(sum, 3);
    });
}

TEST(Usage, RefusesShapesThatDoNotFit) {
  run_ranks(2, [](Communicator& world) {
    Workbench bench;
    Stream& stream = bench.stream();
    Tensor four = bench.empty<float>({4}), three = bench.empty<float>({3});
    Tensor whole = bench.empty<int32_t>({4});
    const std::array<int64_t, 2> sizes = {3, 2};
    EXPECT_ERROR(world.reduce_scatter(stream, three, four, ReduceOp::Sum), Usage,
                 "the output has 3 elements, not 2");
    EXPECT_ERROR(world.all_gather(stream, four, three), Usage, "the input has 3 elements, not 2");
    EXPECT_ERROR(world.all_gather(stream, four, three, When::Now, SplitSizes(sizes)), Usage,
                 "the parts have 5 elements, not 4");
    EXPECT_ERROR(
        world.all_gather(stream, four, three, When::Now, SplitSizes(std::span(sizes).first(1))),
        Usage, "1 parts for 2 ranks");
    EXPECT_ERROR(world.all_to_all(stream, four, four), Usage, "share memory");
    EXPECT_ERROR(world.all_to_all(stream, whole, four), Usage, "the other tensor is i32");
    EXPECT_ERROR(world.broadcast(stream, four, 2), Usage, "ranks are 0 to 1");
    EXPECT_ERROR(world.send(stream, four, world.rank()), Usage, "the sender itself");
    Tensor tiny = bench.empty<f8e4m3>({4});
    EXPECT_ERROR(world.all_reduce(stream, tiny, ReduceOp::Sum), Usage, "cannot be reduced");
  });
}

}  // namespace
}  // namespace sextant

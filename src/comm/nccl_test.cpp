// NCCL with ranks that are threads and share one GPU: what collectives and messages give, with the
// bits of threads, and the errors of ranks that disagree, do not come or fail.
#include "comm/nccl_world.h"

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "support/collective_checks.h"
#include "support/expect_error.h"
#include "support/nccl_ranks.h"

namespace sextant {
namespace {

constexpr DeviceKind kGpu = DeviceKind::Cuda;

struct Case {
  int ranks;
  CallOrder order;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.ranks << " ranks";
}

class CudaNccl : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SXT_NEEDS_NCCL(); }
  static int ranks() { return GetParam().ranks; }
  static NcclOptions options() { return {.timeout_s = 60, .order = GetParam().order}; }
  static void run(const std::function<void(Communicator&)>& f, NcclOptions with = options()) {
    run_nccl_ranks(ranks(), f, with);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, CudaNccl,
                         testing::Values(Case{1, CallOrder::Automatic},
                                         Case{2, CallOrder::Automatic}, Case{2, CallOrder::Device},
                                         Case{4, CallOrder::Automatic},
                                         Case{8, CallOrder::Automatic}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) +
                                  (info.param.order == CallOrder::Device ? "ByEvents" : "");
                         });

TEST_P(CudaNccl, CollectivesGiveWhatTheyAreDefinedToGive) {
  run([](Communicator& world) {
    check_all_collectives<float>(world, When::Now, kGpu);
    check_all_collectives<double>(world, When::Now, kGpu);
    check_all_collectives<bf16>(world, When::Now, kGpu);
    check_all_collectives<f16>(world, When::Now, kGpu);
    check_all_collectives<int32_t>(world, When::Now, kGpu);
    check_all_collectives<int64_t>(world, When::Now, kGpu);
  });
}

TEST_P(CudaNccl, CollectivesGiveTheSameWhenTheyRunBesideTheRank) {
  run([](Communicator& world) {
    check_all_collectives<float>(world, When::Later, kGpu);
    check_all_collectives<bf16>(world, When::Later, kGpu);
  });
}

TEST_P(CudaNccl, CollectivesOfTheLibraryGiveTheSameForSmallNumbers) {
  NcclOptions fast = options();
  fast.sums = SumOrder::Library;
  run(
      [](Communicator& world) {
        check_all_collectives<float>(world, When::Now, kGpu);
        check_all_collectives<int64_t>(world, When::Now, kGpu);
      },
      fast);
}

// Below and above what is gathered whole, and above one piece of the staging memory.
template <class T>
void expect_bits_of_threads(int ranks, const NcclOptions& options,
                            const std::vector<int64_t>& counts) {
  for (const int64_t count : counts) {
    std::vector<std::byte> threads, nccl;
    run_ranks(ranks, [&](Communicator& world) {
      auto bits = all_reduced_bits<T>(world, DeviceKind::Cpu, count);
      if (world.rank() == 0) threads = std::move(bits);
    });
    run_nccl_ranks(
        ranks,
        [&](Communicator& world) {
          auto bits = all_reduced_bits<T>(world, kGpu, count);
          if (world.rank() == world.size() - 1) nccl = std::move(bits);
        },
        options);
    EXPECT_TRUE(threads == nccl) << name_of(kDTypeOf<T>) << ", " << count;
  }
}

TEST_P(CudaNccl, SumsInRankOrderHaveTheBitsOfThreads) {
  expect_bits_of_threads<float>(ranks(), options(), {5003, 200003, 4400017});
  expect_bits_of_threads<bf16>(ranks(), options(), {5003, 600011});
  expect_bits_of_threads<f16>(ranks(), options(), {5003});
}

TEST_P(CudaNccl, SumsOfTheLibraryDifferByRoundingOnly) {
  constexpr int64_t kCount = 20011;
  NcclOptions fast = options();
  fast.sums = SumOrder::Library;
  run(
      [](Communicator& world) {
        Workbench bench(1, kGpu);
        Tensor data = bench.random<float>({kCount}, std::to_string(world.rank()));
        world.all_reduce(bench.stream(), data, ReduceOp::Sum);
        std::vector<double> sums(kCount), sizes(kCount);
        for (int rank = 0; rank < world.size(); ++rank) {
          const Random random(1, std::to_string(rank));
          for (size_t i = 0; i < sums.size(); ++i) {
            const auto x = static_cast<float>(random.normal(i));
            sums[i] += x;
            sizes[i] += std::abs(x);
          }
        }
        const std::vector<float> values = bench.read<float>(data);
        for (size_t i = 0; i < sums.size(); ++i)
          ASSERT_NEAR(values[i], sums[i], 1e-6 * sizes[i]) << i;
      },
      fast);
}

// Both directions at once, many messages under way, as pipelines and rings do.
TEST_P(CudaNccl, MessagesOfBothDirectionsArriveInOrder) {
  run([](Communicator& world) {
    Workbench bench(1, kGpu);
    const int n = world.size(), rank = world.rank();
    if (n == 1) return;
    const int next = (rank + 1) % n, back = (rank + n - 1) % n;
    constexpr int kMessages = 12;
    std::vector<Tensor> sent, from_back, from_next;
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) {
      const int64_t count = 1 + 3000 * i;
      sent.push_back(bench.make<float>({count}, rank_values<float>(rank, i, i + count)));
      from_back.push_back(bench.empty<float>({count}));
      from_next.push_back(bench.empty<float>({count}));
    }
    for (size_t i = 0; i < kMessages; ++i) {
      pending.push_back(world.send(bench.stream(), sent[i], next, When::Later));
      pending.push_back(world.send(bench.stream(), sent[i], back, When::Later));
    }
    for (size_t i = 0; i < kMessages; ++i) {
      pending.push_back(world.receive(bench.stream(), from_next[i], next, When::Later));
      pending.push_back(world.receive(bench.stream(), from_back[i], back, When::Later));
    }
    for (Pending& one : pending) one.wait();
    for (int i = 0; i < kMessages; ++i) {
      const int64_t count = 1 + 3000 * i;
      const auto at = static_cast<size_t>(i);
      // With two ranks both neighbours are the same one, whose messages come in order.
      EXPECT_EQ(bench.read<float>(from_back[at]), rank_values<float>(back, i, i + count)) << i;
      EXPECT_EQ(bench.read<float>(from_next[at]), rank_values<float>(next, i, i + count)) << i;
    }
  });
}

TEST_P(CudaNccl, AMessageIsPartOfTheOrderOfTheStream) {
  run([](Communicator& world) {
    if (world.size() == 1) return;
    Workbench bench(1, kGpu);
    Tensor data = bench.make<float>({1000}, std::vector<float>(1000, 1.0F + world.rank()));
    for (int turn = 0; turn < 5; ++turn) {
      if (world.rank() == 0) {
        world.send(bench.stream(), data, 1);
        world.receive(bench.stream(), data, 1);
      } else if (world.rank() == 1) {
        Tensor other = bench.empty<float>({1000});
        world.receive(bench.stream(), other, 0);
        world.send(bench.stream(), other, 0);
        EXPECT_EQ(bench.read<float>(other), std::vector<float>(1000, 1.0F));
      }
    }
    EXPECT_EQ(bench.read<float>(data), std::vector<float>(1000, 1.0F + world.rank()));
  });
}

TEST_P(CudaNccl, GroupsWorkBesideEachOther) {
  run([](Communicator& world) {
    const int n = world.size(), rank = world.rank();
    Workbench bench(1, kGpu);
    const auto parity =
        world.subgroup(ranks_where(n, [&](int other) { return other % 2 == rank % 2; }), "parity");
    const auto alone = world.subgroup(std::array{rank}, "alone");
    const auto again = duplicate(*parity, "again");
    check_all_collectives<float>(*parity, When::Now, kGpu);
    check_all_collectives<float>(*alone, When::Later, kGpu);
    std::vector<Tensor> data;
    std::vector<Pending> pending;
    for (int i = 0; i < 8; ++i) {
      data.push_back(bench.make<float>({999}, std::vector<float>(999, 1)));
      Communicator& group = i % 3 == 0 ? world : i % 3 == 1 ? *parity : *again;
      if (i == 5) group.order_after(pending[4]);
      pending.push_back(group.all_reduce(bench.stream(), data.back(), ReduceOp::Sum, When::Later));
    }
    for (Pending& one : pending) one.wait();
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(bench.read<float>(data[static_cast<size_t>(i)]),
                std::vector<float>(999, static_cast<float>(i % 3 == 0 ? n : parity->size())))
          << i;
    EXPECT_EQ(world.control().broadcast_text(rank == 0 ? "text" : "", 0), "text");
  });
}

// What a step does: calls in the order of the stream, beside it, of two groups, and messages.
class RecordedStep {
 public:
  explicit RecordedStep(Communicator& world)
      : world_(world),
        again_(duplicate(world, "again")),
        data_(bench_.empty<float>({kCount})),
        all_(bench_.empty<float>({n() * kCount})),
        message_(bench_.empty<float>({kCount})),
        large_(bench_.empty<float>({100 * kCount})) {}

  Stream& stream() { return bench_.stream(); }
  void fill(int turn) {
    for (Tensor* tensor : {&data_, &large_})
      copy_from_host<float>(stream(), *tensor, values_of(world_.rank(), turn, tensor->elements()));
  }
  void run() {
    const int next = (world_.rank() + 1) % n();
    Pending gathered = again_->all_gather(stream(), all_, data_, When::Later), sent, received;
    if (n() > 1) {
      sent = world_.send(stream(), data_, next, When::Later);
      received = world_.receive(stream(), message_, back(), When::Later);
    }
    gathered.wait();
    sent.wait();
    received.wait();
    world_.all_reduce(stream(), data_, ReduceOp::Sum);
    Pending reduced = again_->all_reduce(stream(), large_, ReduceOp::Sum, When::Later);
    world_.order_after(reduced);
    world_.all_reduce(stream(), data_, ReduceOp::Max, When::Later).wait();
    reduced.wait();
  }
  void expect(int turn) {
    std::vector<float> gathered;
    for (int rank = 0; rank < n(); ++rank) {
      const std::vector<float> values = values_of(rank, turn, kCount);
      gathered.insert(gathered.end(), values.begin(), values.end());
    }
    EXPECT_EQ(bench_.read<float>(all_), gathered) << turn;
    EXPECT_EQ(bench_.read<float>(data_), sums(turn, kCount)) << turn;
    EXPECT_EQ(bench_.read<float>(large_), sums(turn, large_.elements())) << turn;
    if (n() == 1) return;
    EXPECT_EQ(bench_.read<float>(message_), values_of(back(), turn, kCount)) << turn;
  }

 private:
  static constexpr int64_t kCount = 1000;

  int n() const { return world_.size(); }
  int back() const { return (world_.rank() + n() - 1) % n(); }
  static std::vector<float> values_of(int rank, int turn, int64_t count) {
    return rank_values<float>(rank, turn, turn + count);
  }
  std::vector<float> sums(int turn, int64_t count) const {
    std::vector<float> all(static_cast<size_t>(count));
    for (int rank = 0; rank < n(); ++rank) {
      const std::vector<float> values = values_of(rank, turn, count);
      for (size_t i = 0; i < all.size(); ++i) all[i] += values[i];
    }
    return all;
  }

  Communicator& world_;
  Workbench bench_{1, kGpu};
  std::unique_ptr<Communicator> again_;
  Tensor data_, all_, message_, large_;
};

TEST_P(CudaNccl, AGraphRepeatsItsCallsOnNewValues) {
  run([](Communicator& world) {
    EXPECT_EQ(world.can_record(), world.size() == 1 || GetParam().order == CallOrder::Device);
    if (!world.can_record()) return;
    RecordedStep step(world);
    step.fill(0);
    step.run();
    step.expect(0);
    gpu::Graph graph(step.stream().queue(), step.stream().staging());
    world.record(graph, step.stream(), [&] { step.run(); });
    for (int turn = 1; turn <= 5; ++turn) {
      step.fill(turn);
      world.control().barrier();
      world.launch(graph, step.stream());
      step.expect(turn);
    }
    // Calls that are not recorded go on behind it.
    check_all_collectives<float>(world, When::Later, kGpu);
  });
}

TEST_P(CudaNccl, ADifferentCallIsToldToAllRanksBeforeItIsIssued) {
  if (ranks() == 1) GTEST_SKIP() << "one rank";
  std::vector<std::string> errors(static_cast<size_t>(ranks()));
  EXPECT_ERROR(run([&](Communicator& world) {
                 Workbench bench(1, kGpu);
                 Tensor data = bench.make<float>({24}, std::vector<float>(24, 1));
                 try {
                   if (world.rank() == 1)
                     world.broadcast(bench.stream(), data, 0);
                   else
                     world.all_reduce(bench.stream(), data, ReduceOp::Sum);
                 } catch (const Error& error) {
                   errors[static_cast<size_t>(world.rank())] = error.what();
                   EXPECT_EQ(bench.read<float>(data), std::vector<float>(24, 1));
                   throw;
                 }
               }),
               Peer, "rank 1 made broadcast of 24 f32 from 0");
  for (const std::string& error : errors)
    EXPECT_NE(error.find("group world, call 1: rank 0"), std::string::npos) << error;
}

TEST_P(CudaNccl, ARankThatDoesNotComeIsNamedWithinTheDeadline) {
  if (ranks() == 1) GTEST_SKIP() << "one rank";
  NcclOptions hasty = options();
  hasty.timeout_s = 2;
  EXPECT_ERROR(run(
                   [&](Communicator& world) {
                     Workbench bench(1, kGpu);
                     Tensor data = bench.empty<float>({24});
                     while (world.rank() == 1 && !world.is_aborted()) std::this_thread::yield();
                     world.all_reduce(bench.stream(), data, ReduceOp::Sum);
                   },
                   hasty),
               Peer,
               "group world, call 1: rank 1 did not call all_reduce sum of 24 f32 within 2 s");
}

TEST_P(CudaNccl, ARankThatFailsStopsTheOthers) {
  if (ranks() == 1) GTEST_SKIP() << "one rank";
  std::vector<std::string> errors(static_cast<size_t>(ranks()));
  EXPECT_ERROR(run([&](Communicator& world) {
                 Workbench bench(1, kGpu);
                 Tensor data = bench.empty<float>({24});
                 // A rank may still be in the first call when rank 1 is through it and fails.
                 try {
                   world.all_reduce(bench.stream(), data, ReduceOp::Sum);
                   if (world.rank() == 1) SXT_FAIL(Data, "a token of 7");
                   world.all_reduce(bench.stream(), data, ReduceOp::Sum);
                 } catch (const Error& error) {
                   errors[static_cast<size_t>(world.rank())] = error.what();
                   throw;
                 }
               }),
               Data, "rank 1: a token of 7");
  for (int rank = 0; rank < ranks(); ++rank)
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              rank == 1 ? "a token of 7" : "rank 1 failed: a token of 7");
}

TEST_P(CudaNccl, MemoryOfTheHostIsRefused) {
  EXPECT_ERROR(run([](Communicator& world) {
                 Workbench bench;
                 Tensor data = bench.empty<float>({4});
                 world.all_reduce(bench.stream(), data, ReduceOp::Sum);
               }),
               Config, "NCCL moves the memory of GPUs");
}

class CudaNcclWorld : public testing::Test {
 protected:
  void SetUp() override { SXT_NEEDS_NCCL(); }
};

TEST_F(CudaNcclWorld, RefusesToShareAGpuUnlessAllowed) {
  const SystemClock clock;
  EXPECT_ERROR(
      ThreadWorld(2, clock).run([](Communicator& host) { NcclWorld world(host, {.gpu = 0}); }),
      Config,
      "ranks 0, 1 have the same GPU: run.transport = nccl needs one for each rank; NCCL 2.30 lets "
      "ranks share a GPU when NCCL_MULTI_RANK_GPU_ENABLE=1 is set");
}

TEST(NcclWorld, SaysWhyItCannotBeUsed) {
  if (NcclWorld::why_unusable().empty()) {
    EXPECT_GT(NcclWorld::version(), 21800);
    return;
  }
  EXPECT_EQ(NcclWorld::version(), 0);
  const SystemClock clock;
  EXPECT_ERROR(ThreadWorld(1, clock).run([](Communicator& host) { NcclWorld world(host, {}); }),
               Config, NcclWorld::why_unusable());
}

}  // namespace
}  // namespace sextant

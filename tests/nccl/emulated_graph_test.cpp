// Graphs with calls of NCCL when a rank or its GPU fails, over the emulation.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "nccl/emulated_gpu.h"
#include "nccl/emulated_nccl.h"
#include "support/collective_checks.h"
#include "support/expect_error.h"
#include "support/nccl_ranks.h"

namespace sextant {
namespace {

class EmulatedGraph : public testing::Test {
 protected:
  static constexpr int64_t kCounts[] = {9, 10, 11};

  void TearDown() override {
    emulated_nccl_stall(-1);
    EXPECT_EQ(emulated_nccl_alive(), 0);
  }
  // Records a sum of each count, and launches it as often; f(launch) runs before each.
  static void launch(Communicator& world, int launches, const std::function<void(int)>& f) {
    Workbench bench(1, DeviceKind::Cuda);
    std::vector<Tensor> data;
    for (const int64_t count : kCounts)
      data.push_back(bench.make<float>({count}, std::vector<float>(static_cast<size_t>(count), 1)));
    gpu::Graph graph(bench.stream().queue(), bench.stream().staging());
    world.record(graph, bench.stream(), [&] {
      for (Tensor& tensor : data) world.all_reduce(bench.stream(), tensor, ReduceOp::Sum);
    });
    for (int i = 0; i < launches; ++i) {
      f(i);
      world.control().barrier();
      world.launch(graph, bench.stream());
      bench.stream().synchronize();
    }
    for (const Tensor& tensor : data)
      EXPECT_EQ(bench.read<float>(tensor)[0], static_cast<float>(std::pow(world.size(), launches)));
  }
  static constexpr NcclOptions kOptions = {.timeout_s = 0.5, .order = CallOrder::Device};
};

TEST_F(EmulatedGraph, TheCallOfALaunchThatHangsIsNamedAndCommunicatorsAreAborted) {
  EXPECT_ERROR(run_nccl_ranks(
                   3,
                   [](Communicator& world) {
                     launch(world, 3, [&](int i) {
                       world.control().barrier();
                       // In the third launch, after one more call.
                       if (i == 2 && world.rank() == 1) emulated_nccl_stall(1, 1);
                     });
                   },
                   kOptions),
               Peer,
               "group world, call 2: all_reduce sum of 10 f32 was issued by all ranks and did not "
               "end on the GPU of rank ");
}

TEST_F(EmulatedGraph, ARankThatFailsBetweenLaunchesStopsTheOthers) {
  std::vector<std::string> errors(3);
  EXPECT_ERROR(run_nccl_ranks(
                   3,
                   [&](Communicator& world) {
                     try {
                       launch(world, 3, [&](int i) {
                         if (i == 1 && world.rank() == 2) SXT_FAIL(Data, "a token of 7");
                       });
                     } catch (const Error& error) {
                       errors[static_cast<size_t>(world.rank())] = error.what();
                       throw;
                     }
                   },
                   kOptions),
               Data, "rank 2: a token of 7");
  for (const size_t rank : {0, 1}) EXPECT_EQ(errors[rank], "rank 2 failed: a token of 7");
}

TEST_F(EmulatedGraph, CallsThatDifferAreToldWhenTheyAreRecorded) {
  EXPECT_ERROR(run_nccl_ranks(
                   2,
                   [](Communicator& world) {
                     Workbench bench(1, DeviceKind::Cuda);
                     Tensor data = bench.empty<float>({9 + world.rank()});
                     gpu::Graph graph(bench.stream().queue(), bench.stream().staging());
                     world.record(graph, bench.stream(),
                                  [&] { world.all_reduce(bench.stream(), data, ReduceOp::Sum); });
                   },
                   kOptions),
               Peer, "rank 1 made all_reduce sum of 10 f32");
}

// A launch that waits for no other rank any more is not late.
TEST_F(EmulatedGraph, ComputeBehindTheLastCallIsNotWatched) {
  run_nccl_ranks(
      2,
      [](Communicator& world) {
        Workbench bench(1, DeviceKind::Cuda);
        Tensor data = bench.make<float>({9}, std::vector<float>(9, 1));
        std::atomic<bool> is_free{false};
        gpu::Graph graph(bench.stream().queue(), bench.stream().staging());
        world.record(graph, bench.stream(), [&] {
          world.all_reduce(bench.stream(), data, ReduceOp::Sum);
          bench.stream().queue().handle()->push([&] {
            while (!is_free.load()) std::this_thread::yield();
          });
        });
        world.control().barrier();
        world.launch(graph, bench.stream());
        const SystemClock clock;
        const double end = clock.now() + 3 * kOptions.timeout_s;
        while (clock.now() < end) std::this_thread::yield();
        is_free.store(true);
        bench.stream().synchronize();
      },
      kOptions);
}

}  // namespace
}  // namespace sextant

// What comm/nccl does when NCCL or a GPU fails, over the emulation.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "comm/nccl/communicator.h"
#include "nccl/emulated_gpu.h"
#include "nccl/emulated_nccl.h"
#include "support/collective_checks.h"
#include "support/expect_error.h"
#include "support/nccl_ranks.h"

namespace sextant {
namespace {

class EmulatedNccl : public testing::Test {
 protected:
  void TearDown() override {
    emulated_nccl_stall(-1);
    emulated_nccl_fail(-1);
    EXPECT_EQ(emulated_nccl_alive(), 0);
  }
  static void sum_on_all(Communicator& world) {
    Workbench bench(1, DeviceKind::Cuda);
    Tensor data = bench.make<float>({9}, std::vector<float>(9, 1));
    world.all_reduce(bench.stream(), data, ReduceOp::Sum);
    bench.stream().synchronize();
    ADD_FAILURE() << "a result that is none";
  }
};

TEST_F(EmulatedNccl, EveryCommunicatorIsFreed) {
  for (const CallOrder order : {CallOrder::Host, CallOrder::Device})
    run_nccl_ranks(4,
                   [](Communicator& world) {
                     const auto pairs = world.subgroup(
                         ranks_where(4, [&](int rank) { return rank / 2 == world.rank() / 2; }),
                         "pairs");
                     EXPECT_GE(emulated_nccl_alive(), 4);
                     check_all_collectives<float>(*pairs, When::Later, DeviceKind::Cuda);
                   },
                   {.order = order});
}

TEST_F(EmulatedNccl, AGpuThatHangsIsNamedWithinTheDeadlineAndCommunicatorsAreAborted) {
  emulated_nccl_stall(1);
  for (const CallOrder order : {CallOrder::Host, CallOrder::Device})
    EXPECT_ERROR(run_nccl_ranks(3, sum_on_all, {.timeout_s = 0.5, .order = order}), Peer,
                 "group world, call 1: all_reduce sum of 9 f32 was issued by all ranks and did not "
                 "end on the GPU of rank ");
}

TEST_F(EmulatedNccl, AFailedCallOfTheLibraryIsNamedAndStopsAllRanks) {
  emulated_nccl_fail(2);
  for (const CallOrder order : {CallOrder::Host, CallOrder::Device})
    EXPECT_ERROR(run_nccl_ranks(3, sum_on_all, {.timeout_s = 20, .order = order}), Peer,
                 "rank 2: group world: all_reduce failed in NCCL: an emulated error (of the "
                 "emulation)");
}

TEST_F(EmulatedNccl, AnErrorOfTheGpuOfARankIsItsOwnAndStopsTheOthers) {
  std::vector<std::string> errors(3);
  EXPECT_ERROR(run_nccl_ranks(3,
                              [&](Communicator& world) {
                                Workbench bench(1, DeviceKind::Cuda);
                                Tensor data = bench.make<float>({9}, std::vector<float>(9, 1));
                                try {
                                  if (world.rank() == 1)
                                    bench.stream().queue().copy(nullptr, nullptr, 1);
                                  world.all_reduce(bench.stream(), data, ReduceOp::Sum);
                                  bench.stream().synchronize();
                                  world.control().barrier();
                                } catch (const Error& error) {
                                  errors[static_cast<size_t>(world.rank())] = error.what();
                                  throw;
                                }
                              }),
               Failure,
               "rank 1: CUDA: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)");
  for (const size_t rank : {0, 2})
    EXPECT_TRUE(errors[rank].starts_with("rank 1 failed: CUDA: cudaMemcpyAsync failed"))
        << errors[rank];
}

// More ranks than one launch of the kernels for ranks that share a GPU takes.
TEST_F(EmulatedNccl, SumsOfManyRanksHaveTheBitsOfThreads) {
  constexpr int kRanks = 128;
  const auto bits_of = [](Communicator& world, DeviceKind device) {
    Workbench bench(1, device, int64_t{80} << 20);
    const std::string rank = std::to_string(world.rank());
    std::vector<std::byte> bits;
    for (const int64_t count : {100, 20000}) {  // gathered whole, and exchanged
      Tensor wide = bench.random<float>({count}, rank), narrow = bench.random<bf16>({count}, rank);
      world.all_reduce(bench.stream(), wide, ReduceOp::Sum);
      world.all_reduce(bench.stream(), narrow, ReduceOp::Sum);
      for (const Tensor& tensor : {wide, narrow}) {
        const std::vector<std::byte> bytes = bench.bytes(tensor);
        bits.insert(bits.end(), bytes.begin(), bytes.end());
      }
    }
    return bits;
  };
  std::vector<std::byte> threads;
  run_ranks(kRanks, [&](Communicator& world) {
    std::vector<std::byte> bits = bits_of(world, DeviceKind::Cpu);
    if (world.rank() == 0) threads = std::move(bits);
  });
  run_nccl_ranks(kRanks, [&](Communicator& world) {
    EXPECT_TRUE(bits_of(world, DeviceKind::Cuda) == threads) << "rank " << world.rank();
  });
}

// The rank's own thread, the watch, the progress thread and those of messages.
TEST_F(EmulatedNccl, EveryThreadSelectsTheGpuOfItsRank) {
  const int before = emulated_gpu_misplaced();
  run_nccl_ranks(2,
                 [](Communicator& world) {
                   Arena arena(Device{DeviceKind::Cuda, 1}, int64_t{80} << 20);
                   Stream stream(arena, 1);
                   Tensor data = arena.allocate(Category::Workspace, DType::F32, {9});
                   const int64_t looks = emulated_gpu_looks();
                   do {
                     world.all_reduce(stream, data, ReduceOp::Sum, When::Later).wait();
                     Pending sent = world.send(stream, data, 1 - world.rank(), When::Later);
                     world.receive(stream, data, 1 - world.rank(), When::Later).wait();
                     sent.wait();
                     world.control().barrier();
                     // Only the watch looks at events in this order of calls.
                     int64_t more = emulated_gpu_looks() - looks;
                     world.control().all_reduce(std::span(&more, 1), ReduceOp::Min);
                     if (more > 0) break;
                   } while (true);
                   stream.synchronize();
                 },
                 {.gpu = 1, .order = CallOrder::Device});
  EXPECT_EQ(emulated_gpu_misplaced(), before);
}

TEST_F(EmulatedNccl, MessagesTakeNoStagingMemory) {
  run_nccl_ranks(2, [](Communicator& world) {
    Workbench bench(1, DeviceKind::Cuda);
    Tensor sent = bench.make<float>({9}, std::vector<float>(9, 1)),
           received = bench.empty<float>({9});
    world.control().barrier();
    const int64_t before = emulated_gpu_memory();
    world.control().barrier();
    Pending sending = world.send(bench.stream(), sent, 1 - world.rank(), When::Later);
    world.receive(bench.stream(), received, 1 - world.rank());
    sending.wait();
    world.all_reduce(bench.stream(), sent, ReduceOp::Sum);
    EXPECT_EQ(emulated_gpu_memory(), before);
    world.control().barrier();
    EXPECT_EQ(bench.read<float>(received), std::vector<float>(9, 1));
  });
}

// The mark of the earlier call is recorded again by whoever takes it once it is free.
TEST_F(EmulatedNccl, TheEndOfACallIsKeptForTheCallThatFollowsIt) {
  run_ranks(2, [](Communicator& host) {
    nccl::Rank rank(host, {.timeout_s = 20}, CallOrder::Device);
    ncclUniqueId id{};
    if (host.rank() == 0) id = nccl::Connection::make_id();
    host.control().broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    nccl::NcclCommunicator world(rank, host, nullptr,
                                 &nccl::Connection::create(rank, host.name(), id, 2, host.rank()));
    const auto other = duplicate(world, "other");
    Workbench bench(1, DeviceKind::Cuda);
    const auto ones = [&] { return bench.make<float>({9}, std::vector<float>(9, 1)); };
    std::vector<Tensor> data = {ones(), ones(), ones()};
    const auto sum = [&](Communicator& group, size_t i) {
      return group.all_reduce(bench.stream(), data[i], ReduceOp::Sum, When::Later);
    };
    Pending earlier = sum(world, 0);
    const nccl::Mark* const end = rank.job(1).done;
    other->order_after(earlier);
    earlier.wait();
    Pending last = sum(world, 1);
    const nccl::Mark* const last_end = rank.job(2).done;
    last.wait();
    const auto take_all = [&] {
      std::vector<nccl::Mark*> taken;
      for (int i = 0; i < 8; ++i) taken.push_back(rank.take_mark(1));
      for (nccl::Mark* one : taken) rank.release(one);
      return std::set<const nccl::Mark*>(taken.begin(), taken.end());
    };
    // The watch has let go of both ends when that of the last call can be taken.
    std::set<const nccl::Mark*> free = take_all();
    for (; !free.contains(last_end); free = take_all()) std::this_thread::yield();
    EXPECT_FALSE(free.contains(end));
    Pending later = sum(*other, 2);
    later.wait();
    EXPECT_TRUE(take_all().contains(end));
    for (const Tensor& tensor : data)
      EXPECT_EQ(bench.read<float>(tensor), std::vector<float>(9, 2));
  });
}

}  // namespace
}  // namespace sextant

// What comm/nccl does when NCCL or a GPU fails, over the emulation.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sextant

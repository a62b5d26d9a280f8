// Copies of offload, over the emulation of a GPU's queues.
#include <gtest/gtest.h>

#include <chrono>

#include "nccl/emulated_gpu.h"
#include "support/workbench.h"
#include "tensor/gpu.h"
#include "tensor/host_arena.h"
#include "tensor/operation_times.h"
#include "trace/arena_plan.h"

namespace sextant {
namespace {

constexpr int kElements = 1000;

class EmulatedOffload : public testing::Test {
 protected:
  EmulatedOffload() {
    HostArena phantom;
    const Tensor planned = phantom.allocate(Category::Optimizer, DType::F32, {kElements});
    host_.emplace(0, std::make_shared<ArenaPlan>(*plan_arena(phantom.record())));
    kept_ = host_->allocate(Category::Optimizer, DType::F32, {kElements});
  }
  Stream& stream() { return bench_.stream(); }
  // An operation that takes a while and then sets all elements.
  void slow_set(Tensor& tensor, float value) {
    float* data = tensor.data<float>();
    stream().queue().handle()->push([data, value] {
      using Time = std::chrono::steady_clock;
      const auto end = Time::now() + std::chrono::milliseconds(3);
      while (Time::now() < end) {
      }
      std::fill_n(data, kElements, value);
    });
  }
  void set(Tensor& tensor, float value) {
    float* data = tensor.data<float>();
    stream().queue().handle()->push([=] { std::fill_n(data, kElements, value); });
  }
  float kept(int element) const { return kept_.data<float>()[element]; }

  Workbench bench_{1, DeviceKind::Cuda};
  std::optional<HostArena> host_;
  Tensor kept_;
};

TEST_F(EmulatedOffload, PinnedMemoryBeginsWithZeros) {
  EXPECT_EQ(kept(0), 0);
  EXPECT_EQ(kept(kElements - 1), 0);
}

TEST_F(EmulatedOffload, ACopyRunsBehindEarlierOperationsAndBeforeThoseThatAwaitIt) {
  Tensor a = bench_.empty<float>({kElements}), b = bench_.empty<float>({kElements});
  for (int turn = 0; turn < 100; ++turn) {  // more than there are events
    const float value = static_cast<float>(turn + 1);
    if (turn % 25 == 0)
      slow_set(a, value);
    else
      set(a, value);
    const HostCopy stored = copy_to_host_arena(stream(), *host_, kept_, a);
    ASSERT_NE(stored.done, nullptr);
    await_copy(stream(), stored);
    set(a, -1);
    const HostCopy fetched = copy_to_device(stream(), *host_, b, kept_);
    await_copy(stream(), fetched);
    set(kept_, -2);  // in the order of the stream, as a kernel that writes there
    EXPECT_EQ(bench_.read<float>(b), std::vector<float>(kElements, value)) << turn;
  }
}

TEST_F(EmulatedOffload, CopiesAreTimedInTheirOwnQueue) {
  const SystemClock clock;
  TraceRecorder recorder;
  Tensor a = bench_.empty<float>({kElements});
  OperationTimes times(stream(), clock);
  stream().arena().set_recorder(&recorder);
  times.start();
  slow_set(a, 1);
  await_copy(stream(), copy_to_host_arena(stream(), *host_, kept_, a));
  const std::vector<OpTime> got = times.read(recorder.trace().ops.size());
  stream().arena().set_recorder(nullptr);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got[0].is_known());
  EXPECT_LT(got[0].seconds(), 0.003) << "the operation before it is none of it";
}

}  // namespace
}  // namespace sextant

// Times of operations, over the emulation of a GPU's queues.
#include <gtest/gtest.h>

#include <chrono>

#include "nccl/emulated_gpu.h"
#include "support/workbench.h"
#include "tensor/copy.h"
#include "tensor/operation_times.h"

namespace sextant {
namespace {

// Work that keeps the queue busy for so long.
void occupy(Stream& stream, double seconds) {
  stream.queue().handle()->push([seconds] {
    using Time = std::chrono::steady_clock;
    const auto end = Time::now() + std::chrono::duration<double>(seconds);
    while (Time::now() < end) {
    }
  });
}

class OperationTimesTest : public testing::Test {
 protected:
  OperationTimesTest() { stream().arena().set_recorder(&recorder_); }
  ~OperationTimesTest() override { stream().arena().set_recorder(nullptr); }
  Stream& stream() { return bench_.stream(); }
  void operation(double seconds) {
    stream().record(Work("operation"));
    const Access access(stream());
    occupy(stream(), seconds);
  }
  std::vector<OpTime> read(OperationTimes& times) {
    return times.read(recorder_.trace().ops.size());
  }

  SystemClock clock_;
  Workbench bench_{1, DeviceKind::Cuda};
  TraceRecorder recorder_;
};

TEST_F(OperationTimesTest, AreThoseOfTheDeviceInItsOrder) {
  OperationTimes times(stream(), clock_);
  const double before = clock_.now();
  times.start();
  operation(0.002);
  occupy(stream(), 0.004);  // between operations
  operation(0.001);
  const std::vector<OpTime> got = read(times);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_GE(got[0].seconds(), 0.002);
  EXPECT_GE(got[1].seconds(), 0.001);
  EXPECT_GE(got[1].begin - got[0].end, 0.004);
  EXPECT_GE(got[0].begin, before);
  EXPECT_LE(got[1].end, clock_.now());
}

// A pending call holds an Access open while other operations run.
TEST_F(OperationTimesTest, AnAccessWithoutAnOperationOfItsOwnIsNotTimed) {
  OperationTimes times(stream(), clock_);
  times.start();
  operation(0);
  {
    const Access pending(stream());
    occupy(stream(), 0.003);
    operation(0.001);
    occupy(stream(), 0.003);
  }
  operation(0);
  const std::vector<OpTime> got = read(times);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_TRUE(got[1].is_known());
  EXPECT_GE(got[1].begin - got[0].end, 0.003);
  EXPECT_GE(got[2].begin - got[1].end, 0.003);
}

TEST_F(OperationTimesTest, AnOperationInsideOfAnotherBelongsToIt) {
  OperationTimes times(stream(), clock_);
  times.start();
  stream().record(Work("outer"));
  {
    const Access outer(stream());
    operation(0.001);
    occupy(stream(), 0.002);
  }
  operation(0);
  const std::vector<OpTime> got = read(times);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_GE(got[0].seconds(), 0.003);
  EXPECT_FALSE(got[1].is_known());
  EXPECT_TRUE(got[2].is_known());
}

TEST_F(OperationTimesTest, AnOperationOfAnotherLaneLastsWhileTheStreamWaitsForIt) {
  OperationTimes times(stream(), clock_);
  times.start();
  recorder_.begin("all_reduce", recorder_.lane({"dp", TraceLane::Kind::Collective}));
  recorder_.end();
  operation(0.001);
  times.begin_in(stream().queue());
  occupy(stream(), 0.002);
  times.end_in(stream().queue(), 0);
  operation(0);
  const std::vector<OpTime> got = read(times);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_GE(got[0].seconds(), 0.002);
  EXPECT_GE(got[0].begin, got[1].end);
  EXPECT_GE(got[2].begin, got[0].end);
}

TEST_F(OperationTimesTest, CopiesAreTimedAndAStepBeginsAnew) {
  OperationTimes times(stream(), clock_);
  for (int step = 0; step < 3; ++step) {
    times.start();
    Tensor a = bench_.empty<float>({4}), b = bench_.empty<float>({4});
    copy_from_host<float>(stream(), a, std::vector<float>(4, 1));
    copy(stream(), b, a);
    fill_zero(stream(), a);
    std::vector<float> values(4);
    copy_to_host<float>(stream(), values, b);
    const std::vector<OpTime> got = read(times);
    ASSERT_EQ(got.size(), 4U);
    for (const OpTime& time : got) EXPECT_TRUE(time.is_known());
    recorder_.take();
  }
}

TEST_F(OperationTimesTest, NothingIsTimedWithoutThem) {
  { const OperationTimes times(stream(), clock_); }
  EXPECT_EQ(stream().queue().times(), nullptr);
  operation(0);
}

}  // namespace
}  // namespace sextant

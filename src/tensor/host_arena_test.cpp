#include "tensor/host_arena.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/workbench.h"
#include "trace/arena_plan.h"
#include "trace/race.h"

namespace sextant {
namespace {

std::shared_ptr<const ArenaPlan> plan_of(const HostArena& phantom) {
  return std::make_shared<ArenaPlan>(*plan_arena(phantom.record()));
}

TEST(HostArena, TakesWhatAPhantomTookFromAFileWithoutAName) {
  HostArena phantom;
  {
    const Tensor wide = phantom.allocate(Category::Optimizer, DType::F32, {100});
    const Tensor narrow = phantom.allocate(Category::Optimizer, DType::BF16, {3});
    phantom.begin(Program::Step);  // two tensors, one after the other at the same place
    phantom.allocate(Category::Activations, DType::F32, {16});
    phantom.allocate(Category::Activations, DType::F32, {8});
    phantom.end();
  }
  EXPECT_EQ(phantom.peak(Category::Optimizer), 406);
  EXPECT_EQ(phantom.peak(Category::Activations), 64);
  const TempDir dir;
  HostArena host(dir.path(), plan_of(phantom));
  EXPECT_EQ(host.reserved(), 448 + 64 + 64);
  const Tensor wide = host.allocate(Category::Optimizer, DType::F32, {100});
  const Tensor narrow = host.allocate(Category::Optimizer, DType::BF16, {3});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(wide.data<float>()[i], 0);
  EXPECT_EQ(host.offset_of(narrow.raw()), 448);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  host.begin(Program::Step);
  EXPECT_ERROR(host.allocate(Category::Activations, DType::F32, {100}), Internal,
               "is not the one that was planned");
}

TEST(HostArena, ADirectoryWithoutRoomIsRefused) {
  HostArena phantom;
  const Tensor one = phantom.allocate(Category::Optimizer, DType::F32, {1});
  EXPECT_ERROR(HostArena("/nowhere/at/all", plan_of(phantom)), Failure, "memory.offload_dir");
  EXPECT_ERROR(HostArena("/proc", plan_of(phantom)), Failure, "memory.offload_dir");
}

TEST(HostArena, CopiesThereAndBackOnALaneOfTheirOwn) {
  Workbench bench(2, DeviceKind::Guarded);
  const TempDir dir;
  HostArena phantom;
  const Tensor same = phantom.allocate(Category::Optimizer, DType::F32, {3});
  HostArena host(dir.path(), plan_of(phantom));
  Tensor kept = host.allocate(Category::Optimizer, DType::F32, {3});
  TraceRecorder recorder;
  bench.arena().set_recorder(&recorder);
  Tensor from = bench.make<float>({3}, {1, 2, 3}), to = bench.make<float>({3}, {0, 0, 0});
  copy_to_host_arena(bench.stream(), host, kept, from);
  fill_zero(bench.stream(), from);  // would race with a copy that is still under way
  const HostCopy copied = copy_to_device(bench.stream(), host, to, kept);
  await_copy(bench.stream(), copied);
  fill_zero(bench.stream(), to);
  bench.arena().set_recorder(nullptr);
  EXPECT_EQ(kept.data<float>()[2], 3);
  const Trace trace = recorder.take();
  ASSERT_EQ(trace.lanes.size(), 2u);
  EXPECT_EQ(trace.lanes[1].name, "copy");
  EXPECT_EQ(find_races(trace).size(), 1u) << "the first fill_zero does not wait";
}

}  // namespace
}  // namespace sextant

#include "tensor/stream.h"

#include <signal.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

TEST(Stream, ScratchIsCountedAlignedAndApart) {
  Arena arena(Device{}, int64_t{64} << 20);
  Stream stream(arena, 3);
  EXPECT_EQ(arena.current(Category::Workspace), Stream::scratch_bytes(3));
  std::vector<std::span<std::byte>> parts = {stream.shared_scratch()};
  for (int thread = 0; thread < 3; ++thread) parts.push_back(stream.thread_scratch(thread));
  EXPECT_EQ(static_cast<int64_t>(parts[0].size()), Stream::kSharedScratch);
  EXPECT_EQ(static_cast<int64_t>(parts[1].size()), Stream::kThreadScratch);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parts[i].data()) % 64, 0u);
    std::memset(parts[i].data(), static_cast<int>(i), parts[i].size());
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].front(), static_cast<std::byte>(i));
    EXPECT_EQ(parts[i].back(), static_cast<std::byte>(i));
  }
}

TEST(Stream, ScratchThatDoesNotFitIsRefused) {
  Arena arena(Device{}, Stream::scratch_bytes(2) - 1);
  EXPECT_ERROR(Stream(arena, 2), Memory, "workspace");
  EXPECT_EQ(arena.current(), 0);
}

TEST(Stream, KeepsTheFirstBadValueUntilItIsAskedFor) {
  Workbench bench;
  Stream& stream = bench.stream();
  stream.check_data();
  stream.report({Fault::Data, "first", "value % in row % is not %", {-3, 1, int64_t{1} << 40}});
  stream.report({Fault::Usage, "second", "value %", {4}});
  EXPECT_TRUE(stream.has_data_fault());
  EXPECT_ERROR(stream.check_data(), Data, "first: value -3 in row 1 is not 1099511627776");
  EXPECT_FALSE(stream.has_data_fault());
  stream.check_data();
}

TEST(Stream, AKernelsMessageIsAFaultOnTheHostAgain) {
  const int32_t row = message_of(Fault::Data, "gather", "row % of %");
  const int32_t other = message_of(Fault::Usage, "gather", "row % of %");
  EXPECT_GT(row, 0);
  EXPECT_NE(row, other);
  const std::string same = "row % of %";  // equal text at another address
  EXPECT_EQ(message_of(Fault::Data, "gather", same.c_str()), row);
  const DataFault fault = fault_from({row, {7, 5}});
  EXPECT_EQ(fault.fault, Fault::Data);
  EXPECT_EQ(to_string(fault), "gather: row 7 of 5");
  EXPECT_EQ(fault_from({other, {}}).fault, Fault::Usage);
  EXPECT_ERROR(fault_from({0, {}}), Internal, "message 0");
  EXPECT_ERROR(fault_from({1 << 20, {}}), Internal, "message 1048576");
}

TEST(Stream, APhantomHasTheSizesOfItsTarget) {
  Arena gpu(phantom_of(DeviceKind::Cuda), int64_t{128} << 20);
  const Stream on_gpu(gpu, 3);
  EXPECT_EQ(gpu.current(Category::Workspace), Stream::kCudaScratch + Stream::kFaultBytes);
  const Tensor a = gpu.allocate(Category::Weights, DType::F8E4M3, {1});
  const Tensor b = gpu.allocate(Category::Weights, DType::F8E4M3, {1});
  EXPECT_EQ(b.raw() - a.raw(), 256);
  EXPECT_EQ(gpu.region().bytes(), int64_t{128} << 20);
  Arena cpu(phantom_of(DeviceKind::Cpu), int64_t{128} << 20);
  const Stream on_cpu(cpu, 3);
  EXPECT_EQ(cpu.current(Category::Workspace), Stream::scratch_bytes(3));
  const Tensor c = cpu.allocate(Category::Weights, DType::F8E4M3, {1});
  const Tensor d = cpu.allocate(Category::Weights, DType::F8E4M3, {1});
  EXPECT_EQ(d.raw() - c.raw(), 64);
  EXPECT_EQ(cpu.region().bytes(), int64_t{256} << 20);
}

TEST(Stream, OnlyGpusHaveQueues) {
  Workbench bench;
  bench.stream().synchronize();
  EXPECT_FALSE(bench.stream().is_gpu());
  EXPECT_ERROR(bench.stream().queue(), Internal, "not on a GPU");
  EXPECT_ERROR(bench.stream().staging(), Internal, "not on a GPU");
  EXPECT_ERROR(bench.stream().device_fault(), Internal, "not on a GPU");
}

TEST(Copy, ToTheHostMayWaitForTheNextSynchronization) {
  Workbench bench;
  const Tensor a = bench.make<float>({2}, {1, 2});
  std::vector<float> later(2), wrong(3);
  copy_to_host_later<float>(bench.stream(), later, a);
  bench.stream().synchronize();
  EXPECT_EQ(later, (std::vector<float>{1, 2}));
  EXPECT_ERROR(copy_to_host_later<float>(bench.stream(), wrong, a), Usage, "8 bytes into 12");
}

TEST(Copy, BringsBytesThereAndBackOnBothDevices) {
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Guarded}) {
    Workbench bench(2, device);
    std::vector<int32_t> values(1000003);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 7);
    const Tensor a = bench.make<int32_t>({1000003}, values);
    Tensor b = bench.empty<int32_t>({1, 1000003});
    copy(bench.stream(), b, a);
    EXPECT_EQ(bench.read<int32_t>(b), values);
    fill_zero(bench.stream(), b);
    EXPECT_EQ(bench.read<int32_t>(b), std::vector<int32_t>(1000003));
    EXPECT_EQ(bench.read<int32_t>(a), values);
  }
}

TEST(Copy, RefusesOtherSizesAndTypes) {
  Workbench bench;
  Tensor x = bench.empty<float>({4});
  std::vector<float> three(3);
  std::vector<double> four(4);
  EXPECT_ERROR(copy_from_host<float>(bench.stream(), x, three), Usage,
               "12 bytes into a tensor [4] of 16");
  EXPECT_ERROR(copy_to_host<float>(bench.stream(), three, x), Usage,
               "a tensor [4] of 16 bytes into 12");
  EXPECT_ERROR(copy_from_host<double>(bench.stream(), x, four), Usage, "f64 into a f32 tensor");
  EXPECT_ERROR(copy_to_host<double>(bench.stream(), four, x), Usage, "a f32 tensor into f64");
  Tensor wider = bench.empty<float>({5}), other = bench.empty<int32_t>({4});
  EXPECT_ERROR(copy(bench.stream(), wider, x), Usage, "f32 [4] into f32 [5]");
  EXPECT_ERROR(copy(bench.stream(), other, x), Usage, "f32 [4] into i32 [4]");
}

// A sanitizer catches the signal and exits by itself; both ways the process is gone.
struct DiedOfAccess {
  bool operator()(int status) const {
    return testing::KilledBySignal(SIGSEGV)(status) || (WIFEXITED(status) && WEXITSTATUS(status));
  }
};

TEST(GuardedDeathTest, TouchingTensorsOutsideOfAnAccessDies) {
  Workbench bench(1, DeviceKind::Guarded);
  Tensor x = bench.make<float>({4}, {1, 2, 3, 4});
  volatile float* data = x.data<float>();
  EXPECT_EXIT((void)data[0], DiedOfAccess(), "");
  EXPECT_EXIT(data[0] = 1, DiedOfAccess(), "");
  {
    const Access access(bench.stream());
    { const Access inner(bench.stream()); }
    EXPECT_EQ(data[3], 4);  // still open after the inner one
  }
  EXPECT_EXIT((void)data[3], DiedOfAccess(), "");
  EXPECT_EQ(bench.read<float>(x), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Device, KnowsThisMachine) {
  EXPECT_GT(physical_memory(), int64_t{1} << 20);
  EXPECT_GE(available_cores(), 1);
  EXPECT_ERROR(Region(Device{}, 0), Usage, "a region of 0 bytes");
  EXPECT_ERROR(Region(Device{}, int64_t{1} << 60), Memory, "address space");
}

TEST(Device, ListsGpusOrSaysWhyThereAreNone) {
  const GpuList list = list_gpus();
  EXPECT_EQ(list.gpus.empty(), !list.why_none.empty()) << list.why_none;
  for (const Gpu& gpu : list.gpus) EXPECT_FALSE(gpu.name.empty());
}

}  // namespace
}  // namespace sextant

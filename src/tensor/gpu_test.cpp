#include "tensor/gpu.h"

#include <numeric>

#include "support/expect_error.h"
#include "support/needs_gpu.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kSegment = int64_t{2} << 20;  // of the staging's ring

std::vector<std::byte> counted(int64_t bytes, int step) {
  std::vector<std::byte> values(static_cast<size_t>(bytes));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::byte>(i * static_cast<size_t>(step) + (i >> 8));
  return values;
}

TEST(Gpu, SaysWhyItCannotBeUsed) {
  const std::string why = gpu::why_unusable(0);
  if (why.empty()) {
    EXPECT_NE(gpu::why_unusable(1000).find("No NVIDIA GPU 1000: this machine has "),
              std::string::npos);
    return;
  }
  EXPECT_TRUE(why.starts_with("No NVIDIA GPU") || why.starts_with("this build has no CUDA")) << why;
  EXPECT_THROW(Region(Device{DeviceKind::Cuda}, 64), Error);
}

TEST(Cuda, MemoryThatIsNotThereIsOneLineWithBothNumbers) {
  SXT_NEEDS_GPU();
  const gpu::Memory memory = gpu::memory_of(0);
  EXPECT_GT(memory.free, 0);
  EXPECT_GE(memory.total, memory.free);
  const int64_t asked = 2 * memory.total;
  EXPECT_ERROR(Region(Device{DeviceKind::Cuda}, asked), Memory,
               concat("(", asked, " bytes) cannot be allocated"));
  const Region still_works(Device{DeviceKind::Cuda}, 1 << 20);  // the error has not stuck
  EXPECT_NE(still_works.data(), nullptr);
}

TEST(Cuda, AnArenaTakesItsLimitOnceAndGivesItBack) {
  SXT_NEEDS_GPU();
  // Together twice what is free, whatever other programs do meanwhile.
  const int64_t bytes = gpu::memory_of(0).free / 4 / 256 * 256;
  for (int turn = 0; turn < 8; ++turn) {
    Arena arena(Device{DeviceKind::Cuda}, bytes);
    EXPECT_EQ(arena.region().bytes(), bytes);
    const Tensor a = arena.allocate(Category::Weights, DType::BF16, {3});
    const Tensor b = arena.allocate(Category::Weights, DType::BF16, {3});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % 256, 0u);
    EXPECT_EQ(b.raw() - a.raw(), 256);
    gpu::Queue queue(0);
    queue.copy(arena.region().data() + bytes - 256, a.raw(), 256);
    queue.synchronize();
  }
}

TEST(CudaStream, HasTheScratchThatAPhantomCounts) {
  SXT_NEEDS_GPU();
  Workbench bench(3, DeviceKind::Cuda);
  EXPECT_EQ(bench.arena().current(Category::Workspace),
            Stream::scratch_bytes(phantom_of(DeviceKind::Cuda), 3));
  EXPECT_EQ(static_cast<int64_t>(bench.stream().shared_scratch().size()), Stream::kCudaScratch);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bench.stream().shared_scratch().data()) % 256, 0u);
  EXPECT_ERROR((void)bench.stream().thread_scratch(0), Internal, "no scratch memory of threads");
}

// Sizes around those of the staging's segments, and one that goes round its ring twice.
TEST(CudaCopy, BringsBytesThereAndBack) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000003}, kSegment - 1, kSegment,
                              kSegment + 1, 17 * kSegment + 5}) {
    Tensor a = bench.empty<f8e4m3>({bytes}), b = bench.empty<f8e4m3>({bytes});
    const std::vector<std::byte> values = counted(bytes, 7);
    copy_bytes_from_host(bench.stream(), a, values);
    copy(bench.stream(), b, a);
    EXPECT_EQ(bench.bytes(b), values);
    fill_zero(bench.stream(), b);
    EXPECT_EQ(bench.bytes(b), std::vector<std::byte>(values.size()));
    EXPECT_EQ(bench.bytes(a), values);
  }
}

// The host memory of an upload is changed right after the call, many times round the ring.
TEST(CudaCopy, HostMemoryCanBeReusedAtOnce) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  constexpr int kCopies = 4000, kEach = 5003;
  Tensor all = bench.empty<int32_t>({kCopies, kEach});
  std::vector<int32_t> row(kEach);
  for (int i = 0; i < kCopies; ++i) {
    std::iota(row.begin(), row.end(), i);
    Tensor to = all.slice(i, i + 1);
    copy_from_host<int32_t>(bench.stream(), to, row);
    std::ranges::fill(row, -1);
  }
  const std::vector<int32_t> back = bench.read<int32_t>(all);
  for (int i = 0; i < kCopies; ++i)
    for (const int at : {0, 1, kEach - 1})
      ASSERT_EQ(back[static_cast<size_t>(i) * kEach + static_cast<size_t>(at)], i + at) << i;
}

TEST(CudaCopy, SeveralReadingsShareOneWait) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  Tensor a = bench.make<double>({2}, {1, 2}), b = bench.make<float>({3}, {4, 5, 6});
  std::vector<std::byte> large(1 << 20);  // more than there is room for: copied at once
  const std::vector<std::byte> values = counted(1 << 20, 3);
  Tensor c = bench.empty<f8e4m3>({1 << 20});
  copy_bytes_from_host(bench.stream(), c, values);
  std::vector<double> first(2);
  std::vector<float> second(3);
  for (int round = 0; round < 1000; ++round) {  // the room is used again
    copy_to_host_later<double>(bench.stream(), first, a);
    copy_to_host_later<float>(bench.stream(), second, b);
    const int64_t waits = bench.stream().queue().waits();
    if (round == 0) copy_bytes_to_host_later(bench.stream(), large, c);
    bench.stream().synchronize();
    ASSERT_EQ(bench.stream().queue().waits() - waits, round == 0 ? 2 : 1);
    ASSERT_EQ(first, (std::vector<double>{1, 2}));
    ASSERT_EQ(second, (std::vector<float>{4, 5, 6}));
    first.assign(2, 0);
    second.assign(3, 0);
  }
  EXPECT_EQ(large, values);
}

TEST(CudaGraph, DownloadsMoreThanTheCommonMemoryHolds) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  Stream& stream = bench.stream();
  constexpr int64_t kBytes = int64_t{1} << 20;
  Tensor data = bench.empty<f8e4m3>({kBytes}), few = bench.make<float>({3}, {4, 5, 6});
  std::vector<std::byte> values = counted(kBytes, 3), read(kBytes);
  std::vector<float> before(3), after(3);
  gpu::Graph graph(stream.queue(), stream.staging());
  graph.record([&] {
    copy_bytes_from_host(stream, data, values);
    copy_to_host_later<float>(stream, before, few);
    copy_bytes_to_host_later(stream, read, data);
    copy_to_host_later<float>(stream, after, few);
  });
  for (const int step : {3, 5}) {
    std::ranges::copy(counted(kBytes, step), values.begin());  // the graph has its address
    graph.launch();
    stream.synchronize();
    EXPECT_EQ(read, values) << step;
    EXPECT_EQ(before, (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(after, (std::vector<float>{4, 5, 6}));
  }
}

TEST(CudaStream, TellsTheBadValueThatAKernelWrote) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  Stream& stream = bench.stream();
  stream.check_data();
  const DeviceFault fault{message_of(Fault::Data, "gather", "row % of %"), {7, 5}};
  stream.staging().upload(reinterpret_cast<std::byte*>(stream.device_fault()),
                          std::as_bytes(std::span(&fault, 1)));
  EXPECT_ERROR(stream.check_data(), Data, "gather: row 7 of 5");
  stream.check_data();  // told once
}

// The second queue copies what the first one writes, many times, without the host waiting.
TEST(CudaEvent, OrdersTwoQueues) {
  SXT_NEEDS_GPU();
  Workbench bench(1, DeviceKind::Cuda);
  constexpr int64_t kCount = int64_t{4} << 20;
  gpu::Queue& first = bench.stream().queue();
  gpu::Queue second(0);
  gpu::Event written(0), taken(0);
  Tensor ones = bench.make<int32_t>({kCount}, std::vector<int32_t>(kCount, 1));
  Tensor between = bench.empty<int32_t>({kCount}), last = bench.empty<int32_t>({kCount});
  bench.stream().synchronize();
  for (int round = 0; round < 20; ++round) {
    first.wait_for(taken);  // not recorded yet in the first round, which is no wait
    first.fill_zero(between.raw(), between.bytes());
    first.copy(between.raw(), ones.raw(), ones.bytes());
    written.record(first);
    second.wait_for(written);
    second.copy(last.raw(), between.raw(), between.bytes());
    taken.record(second);
  }
  second.synchronize();
  EXPECT_EQ(bench.read<int32_t>(last), std::vector<int32_t>(kCount, 1));
}

}  // namespace
}  // namespace sextant

#include "bench/gpu_ceilings.h"

#include "ops/matmul.h"
#include "ops/random_fill.h"
#include "tensor/gpu.h"

namespace sextant {
namespace {

constexpr int64_t kProductSide = 8192, kCopiedBytes = int64_t{1} << 30;
constexpr double kCeilingWarmUpSeconds = 0.4, kCeilingSeconds = 0.6;
constexpr int kCallsBetweenWaits = 8;  // calls between two waits

template <class F>
SustainedRate sustain(Stream& stream, const Clock& clock, double work, F&& issue) {
  GpuMeter meter(stream.device().index, clock);
  SustainedRate out;
  for (const double least : {kCeilingWarmUpSeconds, kCeilingSeconds}) {
    stream.synchronize();
    meter.start();
    const double begin = clock.now();
    double seconds = 0;
    int64_t calls = 0;
    for (; seconds < least; seconds = clock.now() - begin) {
      for (int i = 0; i < kCallsBetweenWaits; ++i) issue();
      stream.synchronize();
      calls += kCallsBetweenWaits;
    }
    out = {static_cast<double>(calls) * work / seconds, meter.stop()};
  }
  return out;
}

}  // namespace

GpuCeilings measure_gpu_ceilings(DType type, const Clock& clock) {
  const Device gpu{DeviceKind::Cuda};
  Arena arena(gpu, 3 * kCopiedBytes + Stream::scratch_bytes(gpu, 1));
  Stream stream(arena, 1);
  GpuCeilings out;
  {
    const auto make = [&](const char* name) {
      Tensor tensor = arena.allocate(Category::Workspace, type, {kProductSide, kProductSide});
      fill_normal(stream, tensor, 1, name, 1, 0);
      return tensor;
    };
    const Tensor a = make("a"), b = make("b");
    Tensor c = make("c");
    out.product = sustain(stream, clock, 2.0 * kProductSide * kProductSide * kProductSide,
                          [&] { matmul(stream, c, a, Transpose::No, b, Transpose::Yes, {}); });
  }
  Tensor from = arena.allocate(Category::Workspace, DType::F32, {kCopiedBytes / 4}),
         to = arena.allocate(Category::Workspace, DType::F32, {kCopiedBytes / 4});
  fill_normal(stream, from, 1, "copied", 1, 0);
  out.copy = sustain(stream, clock, 2.0 * kCopiedBytes,
                     [&] { stream.queue().copy(to.raw(), from.raw(), kCopiedBytes); });
  return out;
}

}  // namespace sextant

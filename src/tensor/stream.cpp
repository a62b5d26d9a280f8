#include "tensor/stream.h"

namespace sextant {

Stream::Stream(Arena& arena, int threads)
    : arena_(arena),
      team_(threads),
      scratch_(arena.allocate(Category::Workspace, DType::F8E4M3, {scratch_bytes(threads)})) {
  SXT_CHECK(has_kernel_baseline(), Failure,
            "this processor has no AVX2 and FMA, which the kernels are built for (x86-64-v3)");
}

std::span<std::byte> Stream::thread_scratch(int thread) {
  return {scratch_.raw() + kSharedScratch + thread * kThreadScratch, kThreadScratch};
}

std::span<std::byte> Stream::shared_scratch() {
  return {scratch_.raw(), kSharedScratch};
}

Access::Access(Stream& stream) : stream_(stream) {
  if (stream.device().kind == DeviceKind::Guarded && stream.open_++ == 0)
    stream.arena().region().open();
}

Access::~Access() {
  if (stream_.device().kind == DeviceKind::Guarded && --stream_.open_ == 0)
    stream_.arena().region().close();
}

}  // namespace sextant

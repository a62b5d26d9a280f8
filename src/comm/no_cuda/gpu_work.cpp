#include "comm/gpu_work.h"

#include "base/error.h"

namespace sextant {

void work_on_gpu(gpu::Queue&, std::span<const Call* const>) {
  SXT_FAIL(Internal, "a collective on a GPU in a build without CUDA");
}

void fold_on_gpu(gpu::Queue&, std::byte*, std::span<const std::byte* const>, int64_t, DType,
                 ReduceOp, Into) {
  SXT_FAIL(Internal, "a reduction on a GPU in a build without CUDA");
}

void count_on_gpu(gpu::Queue&, int64_t*) {
  SXT_FAIL(Internal, "a counter of a GPU in a build without CUDA");
}

}  // namespace sextant

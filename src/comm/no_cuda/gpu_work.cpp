#include "comm/gpu_work.h"

namespace sextant {

void work_on_gpu(gpu::Queue&, std::span<const Call* const>) {}

}  // namespace sextant

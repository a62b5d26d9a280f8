#include "train/run_device.h"

#include "base/error.h"
#include "tensor/gpu.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr int kGpu = 0;  // ranks in threads share one; CUDA_VISIBLE_DEVICES says which

}  // namespace

Device run_device(const Config& config) {
  if (config.run.device == RunDevice::Cpu) return {};
  const std::string why = gpu::why_unusable(kGpu);
  SXT_CHECK(why.empty(), Config, "run.device = cuda: ", why,
            "; run.device = cpu works here, and --dry-run needs no GPU");
  return {DeviceKind::Cuda, kGpu};
}

Device phantom_device(const Config& config) {
  return phantom_of(config.run.device == RunDevice::Cuda ? DeviceKind::Cuda : DeviceKind::Cpu);
}

int64_t memory_limit(const Config& config) {
  if (config.run.memory_limit > 0) return config.run.memory_limit;
  const int ranks = local_ranks(config);
  if (config.run.device == RunDevice::Cpu) return physical_memory() / ranks;
  return gpu::why_unusable(kGpu).empty() ? gpu::memory_of(kGpu).free / ranks : 0;
}

}  // namespace sextant

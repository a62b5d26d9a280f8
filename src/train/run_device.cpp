#include "train/run_device.h"

#include "base/error.h"
#include "comm/launch.h"
#include "tensor/gpu.h"
#include "train/world.h"

namespace sextant {
namespace {

// CUDA_VISIBLE_DEVICES says which GPUs there are.
constexpr int kFirstGpu = 0;

int gpu_of(const Config& config, int rank) {
  const int gpus = gpu::count();
  if (config.run.transport != Transport::Nccl || gpus == 0) return kFirstGpu;
  const Launch launch = find_launch(process_environment());
  return (launch.kind == LaunchKind::None ? rank : launch.local_rank) % gpus;
}

// Of this machine, if they take its GPUs in turn.
int ranks_per_gpu(const Config& config) {
  const int ranks = local_ranks(config), gpus = gpu::count();
  return config.run.transport != Transport::Nccl || gpus == 0 ? ranks : (ranks + gpus - 1) / gpus;
}

}  // namespace

Device run_device(const Config& config, int rank) {
  if (config.run.device == RunDevice::Cpu) return {};
  const int gpu = gpu_of(config, rank);
  const std::string why = gpu::why_unusable(gpu);
  SXT_CHECK(why.empty(), Config, "run.device = cuda: ", why,
            "; run.device = cpu works here, and --dry-run needs no GPU");
  return {DeviceKind::Cuda, gpu};
}

int ranks_on_gpu(const Config& config) {
  if (config.run.transport == Transport::Nccl && gpu::count() == 0) return 1;
  return ranks_per_gpu(config);
}

Device phantom_device(const Config& config) {
  return phantom_of(config.run.device == RunDevice::Cuda ? DeviceKind::Cuda : DeviceKind::Cpu);
}

int64_t memory_limit(const Config& config) {
  if (config.run.memory_limit > 0) return config.run.memory_limit;
  if (config.run.device == RunDevice::Cpu) return physical_memory() / local_ranks(config);
  if (!gpu::why_unusable(kFirstGpu).empty()) return 0;
  return gpu::memory_of(gpu_of(config, 0)).free / ranks_per_gpu(config);
}

}  // namespace sextant

#include "bench/machine_peak.h"

#include <algorithm>

#include "bench/gpu_facts.h"
#include "bench/machine.h"
#include "tensor/device.h"
#include "train/preflight.h"
#include "train/world.h"

namespace sextant {

double machine_peak(const Config& config) {
  if (config.run.peak_flops > 0) return config.run.peak_flops;
  const bool is_fp32 = config.precision.compute == ComputeType::Fp32;
  if (config.run.device == RunDevice::Cuda) return gpu_peak(is_fp32 ? DType::F32 : DType::BF16);
  const int here = local_ranks(config), all = world_size(config.parallel);
  const int threads = std::min(available_cores(), thread_count(config) * here);
  const bool is_bf16 = config.precision.compute == ComputeType::Bf16;
  return fma_peak(threads, is_bf16 ? DType::BF16 : DType::F32) * all / here;
}

}  // namespace sextant

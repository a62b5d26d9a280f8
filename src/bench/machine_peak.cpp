#include "bench/machine_peak.h"

#include <algorithm>
#include <functional>

#include "bench/gpu_facts.h"
#include "bench/kept_file.h"
#include "bench/kept_peak.h"
#include "bench/machine.h"
#include "tensor/device.h"
#include "train/preflight.h"
#include "train/world.h"

namespace sextant {

namespace {

// `measured`: of this many threads, for operands of this type.
double peak_of(const Config& config, const std::function<double(int, DType)>& measured) {
  if (config.run.peak_flops > 0) return config.run.peak_flops;
  const bool is_fp32 = config.precision.compute == ComputeType::Fp32;
  if (config.run.device == RunDevice::Cuda) return gpu_peak(is_fp32 ? DType::F32 : DType::BF16);
  const int here = local_ranks(config), all = world_size(config.parallel);
  const int threads = std::min(available_cores(), thread_count(config) * here);
  const bool is_bf16 = config.precision.compute == ComputeType::Bf16;
  return measured(threads, is_bf16 ? DType::BF16 : DType::F32) * all / here;
}

}  // namespace

double machine_peak(const Config& config) {
  return peak_of(config, fma_peak);
}

void renew_machine_peak(const Config& config, Storage& storage, Log& log) {
  peak_of(config, [&](int threads, DType operands) {
    return measure_fma_peak(storage, cache_directory(), threads, operands, log);
  });
}

double kept_machine_peak(const Config& config, Storage& storage, Log& log) {
  return peak_of(config, [&](int threads, DType operands) {
    return kept_fma_peak(storage, cache_directory(), threads, operands, log);
  });
}

}  // namespace sextant

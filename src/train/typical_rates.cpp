#include "train/typical_rates.h"

namespace sextant {

Rates typical_rates(const Config& config) {
  const bool is_gpu = config.run.device == RunDevice::Cuda;
  Rates rates;
  rates.flops = is_gpu ? 8e14 : 1e11;
  rates.memory = is_gpu ? 3e12 : 1e10;
  rates.link = is_gpu ? 4e11 : 5e9;
  rates.launch = rates.latency = is_gpu ? 5e-6 : 2e-6;
  return rates;
}

}  // namespace sextant

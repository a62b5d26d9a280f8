#pragma once
#include <atomic>
#include <string>
#include <thread>

#include "base/clock.h"

struct nvmlDevice_st;

namespace sextant {

// How a GPU ran over some time; 0: not known.
struct GpuUse {
  double watts = 0;
  double megahertz = 0;  // of its multiprocessors
};

// Reads clock and energy of a GPU through the driver's NVML, where that is there. Its calls take
// milliseconds, so a thread of its own makes those in between.
class GpuMeter {
 public:
  GpuMeter(int gpu, const Clock& clock);

  void start();
  GpuUse stop();  // from start to now

 private:
  double joules() const;  // since the driver was loaded; 0: not known
  void sample_until_stopped(const std::stop_token& stopped);

  const Clock& clock_;
  nvmlDevice_st* device_ = nullptr;
  double begin_ = 0, first_joules_ = 0;
  std::atomic<int64_t> megahertz_{0}, samples_{0};
  std::jthread sampler_;
};

// As NVML names a GPU, from the 16 bytes of gpu::identity.
std::string nvml_name(const std::string& identity);

}  // namespace sextant

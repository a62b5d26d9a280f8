#pragma once
#include <string>

#include "base/clock.h"

struct nvmlDevice_st;

namespace sextant {

// How a GPU ran over some time; 0: not known.
struct GpuUse {
  double watts = 0;
  double megahertz = 0;  // of its multiprocessors
};

// Reads clock and energy of a GPU through the driver's NVML, where that is there.
class GpuMeter {
 public:
  GpuMeter(int gpu, const Clock& clock);

  void start();
  void sample();  // the clock, as it is now; also the end of the time
  GpuUse use() const;

 private:
  double joules() const;  // since the driver was loaded; 0: not known

  const Clock& clock_;
  nvmlDevice_st* device_ = nullptr;
  double begin_ = 0, end_ = 0, first_joules_ = 0, last_joules_ = 0, megahertz_ = 0;
  int samples_ = 0;
};

// As NVML names a GPU, from the 16 bytes of gpu::identity.
std::string nvml_name(const std::string& identity);

}  // namespace sextant

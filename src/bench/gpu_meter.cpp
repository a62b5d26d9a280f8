#include "bench/gpu_meter.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>

#include "tensor/gpu.h"

namespace sextant {
namespace {

// The functions of NVML that are used here, all or none; each returns 0 on success.
struct Nvml {
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, nvmlDevice_st**) = nullptr;
  int (*energy)(nvmlDevice_st*, unsigned long long*) = nullptr;
  int (*clock)(nvmlDevice_st*, unsigned, unsigned*) = nullptr;
  bool is_there = false;

  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    is_there = find("nvmlInit_v2", init) && find("nvmlDeviceGetHandleByUUID", by_uuid) &&
               find("nvmlDeviceGetTotalEnergyConsumption", energy) &&
               find("nvmlDeviceGetClockInfo", clock) && init() == 0;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

constexpr unsigned kMultiprocessorClock = 1;

}  // namespace

std::string nvml_name(const std::string& identity) {
  std::string name = "GPU";
  for (size_t i = 0; i < identity.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += fmt::format("{:02x}", static_cast<unsigned char>(identity[i]));
  }
  return name;
}

GpuMeter::GpuMeter(int gpu, const Clock& clock) : clock_(clock) {
  if (gpu < gpu::count() && nvml().is_there &&
      nvml().by_uuid(nvml_name(gpu::identity(gpu)).c_str(), &device_) != 0)
    device_ = nullptr;
}

double GpuMeter::joules() const {
  unsigned long long millijoules = 0;
  if (device_ == nullptr || nvml().energy(device_, &millijoules) != 0) return 0;
  return 1e-3 * static_cast<double>(millijoules);
}

void GpuMeter::start() {
  megahertz_ = samples_ = 0;
  first_joules_ = joules();
  begin_ = clock_.now();
  if (device_ != nullptr)
    sampler_ =
        std::jthread([this](const std::stop_token& stopped) { sample_until_stopped(stopped); });
}

void GpuMeter::sample_until_stopped(const std::stop_token& stopped) {
  constexpr std::chrono::milliseconds kPause{20};
  while (!stopped.stop_requested()) {
    unsigned megahertz = 0;
    if (nvml().clock(device_, kMultiprocessorClock, &megahertz) == 0) {
      megahertz_ += megahertz;
      ++samples_;
    }
    std::this_thread::sleep_for(kPause);
  }
}

GpuUse GpuMeter::stop() {
  GpuUse out;
  const double seconds = clock_.now() - begin_, last = joules();
  sampler_ = {};  // ends it
  if (seconds > 0) out.watts = (last - first_joules_) / seconds;
  if (samples_ > 0) out.megahertz = static_cast<double>(megahertz_) / static_cast<double>(samples_);
  return out;
}

}  // namespace sextant

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench/calibrate.h"
#include "tensor/device.h"

namespace sextant {

namespace {

// The planner's numbers are those of the description of such a GPU: "NVIDIA H200" extends h200.
std::string gpu_text(const Calibration& made) {
  std::string name = made.gpu.substr(made.gpu.find(' ') + 1);
  name = name.substr(0, name.find_first_of(" -"));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format(
             "# Measured by sextant bench calibrate --device cuda. A \"core\" is the GPU.\n"
             "schema = 1\nextends = \"{}\"\nname = \"{}\"\nvalidated = false\n\n",
             name, made.machine.name) +
         machine_text(made.machine);
}

}  // namespace

// The planner's unit is a core: peaks, memory and bandwidth are a core's share. Ranks reach each
// other through memory, so there is one domain; the network has no measure and is that of memory.
std::string hardware_text(const Calibration& made) {
  if (!made.gpu.empty()) return gpu_text(made);
  const Machine& machine = made.machine;
  const double cores = machine.cores;
  const auto rate_of = [&](const char* name, DType dtype) {
    const auto found = machine.costs.find(operation_key(name, dtype, 1));
    return found == machine.costs.end() || found->second.flop == 0 ? 0 : 1 / found->second.flop;
  };
  const double peak = made.fma_peak / cores, peak_bf16 = made.fma_peak_bf16 / cores;
  const double best = std::min(1.0, rate_of("matmul", DType::BF16) / peak_bf16);
  const double copy = made.copy_rate / cores;
  std::string out = fmt::format(
      "# Measured by sextant bench calibrate, with all cores at work. A \"GPU\" is one core.\n"
      "schema = 1\nname = \"{}\"\ngeneration = \"cpu\"\nvalidated = false\n\n",
      machine.name);
  out += fmt::format(
      "[gpu]\nbf16 = {:.4g}\nfp16 = {:.4g}\nfp32 = {:.4g}\ngemm_ceiling = {:.3f}\n"
      "memory_gb = {:.4g}\nmemory_tb_s = {:.4g}\npower_w = 1\n\n",
      peak_bf16 / 1e12, peak / 1e12, peak / 1e12, std::max(0.05, best),
      static_cast<double>(physical_memory()) / cores / (1024.0 * 1024 * 1024), copy / 1e12);
  out += fmt::format(
      "[node]\ngpus = {}\ndomain = {}\nlink_gb_s = {:.4g}\nhost_gb_s = {:.4g}\n\n"
      "[network]\nnic_gb_s = {:.4g}\n\n",
      machine.cores, machine.cores, copy / 2e9, copy / 2e9, copy / 2e9);
  return out + machine_text(machine);
}

}  // namespace sextant

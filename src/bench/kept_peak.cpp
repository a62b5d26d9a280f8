#include "bench/kept_peak.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "bench/kept_file.h"
#include "bench/machine.h"
#include "tensor/device.h"

namespace sextant {
namespace {

using Json = nlohmann::json;

constexpr const char* kPeakName = "peak";

// The processor's name, as the kernel has it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  return "unknown";
}

std::string build_name() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return concat(__VERSION__, " with sanitizers");
#else
  return __VERSION__;
#endif
}

// All that a peak depends on.
Json key_of(int threads, DType operands) {
  return {{"format", "sextant-peak 1"},    {"processor", processor_name()},
          {"cores", available_cores()},    {"threads", threads},
          {"operands", name_of(operands)}, {"build", build_name()}};
}

void write_peak(Storage& storage, const std::string& directory, const Json& key, double flops,
                Log& log) {
  try {
    write_kept(storage, directory, kPeakName, key, {{"flops", flops}});
  } catch (const Error& error) {
    log.detail(concat("the peak of this machine is not kept: ", error.what()));
  }
}

}  // namespace

double kept_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                     Log& log) {
  const Json key = key_of(threads, operands);
  const std::optional<Json> kept = read_kept(storage, directory, kPeakName, key);
  if (kept && kept->at("flops").get<double>() > 0) return kept->at("flops").get<double>();
  return measure_fma_peak(storage, directory, threads, operands, log);
}

double measure_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                        Log& log) {
  const double flops = fma_peak(threads, operands);
  write_peak(storage, directory, key_of(threads, operands), flops, log);
  return flops;
}

}  // namespace sextant

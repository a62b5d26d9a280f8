#include "bench/kept_peak.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "bench/machine.h"
#include "checkpoint/digest.h"
#include "formats/json.h"
#include "tensor/device.h"

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "sextant-peak 1";

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
  return {{"format", kFormat},  {"processor", processor_name()}, {"cores", available_cores()},
          {"threads", threads}, {"operands", name_of(operands)}, {"build", build_name()}};
}

std::string path_of(const std::string& directory, const Json& key) {
  return join_path(directory, "peak-" + digest_of(key.dump()) + ".json");
}

std::string text_of(Json key, double flops) {
  key["flops"] = flops;
  const std::string digest = digest_of(key.dump());
  key["xxh3_128"] = digest;
  return key.dump() + "\n";
}

// Only what would be written again in exactly these bytes.
std::optional<double> read_peak(Storage& storage, const std::string& path, const Json& key) {
  try {
    if (!storage.exists(path)) return {};
    const std::string text = read_text(storage, path);
    const double flops = parse_json_strict(text, path).at("flops").get<double>();
    if (text == text_of(key, flops) && flops > 0) return flops;
  } catch (const Error&) {
  } catch (const nlohmann::json::exception&) {
  }
  return {};
}

void write_peak(Storage& storage, const std::string& directory, const Json& key, double flops,
                Log& log) {
  try {
    storage.make_directories(directory);
    replace_file(storage, path_of(directory, key), text_of(key, flops));
  } catch (const Error& error) {
    log.detail(concat("the peak of this machine is not kept: ", error.what()));
  }
}

}  // namespace

double kept_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                     Log& log) {
  const Json key = key_of(threads, operands);
  if (!directory.empty())
    if (const std::optional<double> kept = read_peak(storage, path_of(directory, key), key))
      return *kept;
  return measure_fma_peak(storage, directory, threads, operands, log);
}

double measure_fma_peak(Storage& storage, const std::string& directory, int threads, DType operands,
                        Log& log) {
  const double flops = fma_peak(threads, operands);
  if (!directory.empty()) write_peak(storage, directory, key_of(threads, operands), flops, log);
  return flops;
}

}  // namespace sextant

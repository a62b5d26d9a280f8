#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"

namespace sextant {

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

enum class GpuGeneration { Cpu, Tpu, Volta, Ampere, Ada, Hopper, Blackwell, Cdna3 };

// A GPU, the node it sits in and the network between nodes, as a file of hardware/ describes them.
// Rates in units per second and bytes per second; link rates are per GPU and direction.
struct Hardware {
  std::string name;  // "H100-80GB-SXM"
  std::vector<std::string> aliases;
  GpuGeneration generation = GpuGeneration::Hopper;
  bool validated = false;  // runs of the calibration table used it

  double bf16 = 0, fp16 = 0, fp8 = 0, fp4 = 0, tf32 = 0, fp32 = 0;  // dense peaks, FLOP/s; 0: none
  double gemm_ceiling = 0.8,
         gemm_ceiling_fp8 = 0.7;  // share of the peak that the best GEMM reaches
  double memory = 0;              // bytes
  double memory_rate = 0;
  double l2 = 0, l1 = 0;                                // bytes; L1 of one SM
  int memory_cycles = 0, l2_cycles = 0, l1_cycles = 0;  // latencies; 0: not known
  int sms = 0;
  double power = 0, design_power = 0;  // watts; the peaks are stated for design_power

  int node_gpus = 8;
  int domain = 8;             // GPUs that reach each other over `link`
  double link = 0;            // inside the domain; of a torus: of one of a GPU's links
  double taper = 1;           // by how much the domain's links fall between its nodes
  int torus = 0;              // axes of the torus that a domain is; 0: switches join all its GPUs
  double host = 0;            // to the host's memory
  double nic = 0;             // between domains
  int leaf = 8;               // domains whose GPUs meet in one leaf switch of the network
  double oversubscribed = 1;  // of the network's upper levels
  // 1: flows keep the path that a table gives them, and some share a link above the leaf switches
  // (InfiniBand up to HDR); 0: switches choose the path of each packet.
  double static_routes = 0;

  // What was taken from another GPU or guessed, one sentence each; empty for a known one.
  std::vector<std::string> assumed;
};

// Whether switches of the domain add up what passes through them (NVLink SHARP).
bool has_switch_sums(const Hardware& hardware);

// Dense peak for 16-bit inputs.
double half_peak(const Hardware& hardware);
// FLOPs that a byte from memory must be used for to reach the 16-bit peak: 295 for an H100.
double ridge_point(const Hardware& hardware);

// A description by name or alias (of any case), or from a file whose path ends in ".toml". A name
// that is not known gets the description of the nearest known GPU, which `assumed` then says.
// Error(Config) for a file that is wrong, and for a name that resembles none.
Hardware find_hardware(Storage& storage, std::string_view name);
Hardware parse_hardware(const std::string& text, const std::string& name);

// Built-in descriptions, in order of their names.
std::vector<Hardware> known_hardware();

// "64xH100", "256xGB200", "16xmine.toml", or a bare name, which means one domain of them.
struct Cluster {
  Hardware hardware;
  int64_t gpus = 0;
};
Cluster parse_cluster(Storage& storage, std::string_view text);

}  // namespace sextant

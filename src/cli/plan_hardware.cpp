#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/plan_commands.h"
#include "cli/print.h"
#include "cli/values.h"
#include "plan/collective.h"
#include "plan/hardware.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of a node, and of 256 GPUs.
Json networks_of(const Hardware& h) {
  Json out = Json::array();
  for (const int64_t gpus : {int64_t{h.node_gpus}, int64_t{256}})
    out.push_back({{"gpus", gpus},
                   {"bisection_gb_s", bisection(h, gpus) / 1e9},
                   {"reduce_gb_s", reduce_rate(h, gpus) / 1e9}});
  return out;
}

Json to_json(const Hardware& h) {
  return {
      {"name", h.name},
      {"aliases", h.aliases},
      {"validated", h.validated},
      {"bf16_tflops", half_peak(h) / 1e12},
      {"fp8_tflops", h.fp8 / 1e12},
      {"memory_gib", h.memory / (1024.0 * 1024 * 1024)},
      {"memory_tb_s", h.memory_rate / 1e12},
      {"ridge", ridge_point(h)},
      {"domain", h.domain},
      {"link_gb_s", h.link / 1e9},
      {"nic_gb_s", h.nic / 1e9},
      {"torus", h.torus},
      {"networks", networks_of(h)},
      {"l2_mb", h.l2 / 1e6},
      {"l1_kb", h.l1 / 1e3},
      {"latency_cycles", {{"memory", h.memory_cycles}, {"l2", h.l2_cycles}, {"l1", h.l1_cycles}}},
      {"assumed", h.assumed}};
}

int run_hardware(const std::string& name, Context& context) {
  const std::vector<Hardware> all =
      name.empty() ? known_hardware() : std::vector{find_hardware(context.storage, name)};
  if (context.json) {
    Json rows = Json::array();
    for (const Hardware& hardware : all) rows.push_back(to_json(hardware));
    print_json({{"hardware", rows}});
    return 0;
  }
  print(fmt::format("{:<22} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>8} {:>8}  {}\n", "GPU", "16-bit",
                    "fp8", "memory", "TB/s", "ridge", "domain", "link", "NIC", ""));
  for (const Hardware& h : all) {
    print(fmt::format(
        "{:<22} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.2f} {:>7.0f} {:>7} {:>8.0f} {:>8.1f}  {}\n", h.name,
        half_peak(h) / 1e12, h.fp8 / 1e12, h.memory / (1024.0 * 1024 * 1024), h.memory_rate / 1e12,
        ridge_point(h), h.domain, h.link / 1e9, h.nic / 1e9, h.validated ? "" : "not validated"));
    for (const std::string& text : h.assumed) print("  assumed: " + text + "\n");
  }
  if (!name.empty())
    for (const Json& network : networks_of(all[0]))
      print(fmt::format("{} GPUs: bisection {:.0f} GB/s, all-reduce {:.0f} GB/s\n",
                        network["gpus"].get<int64_t>(), network["bisection_gb_s"].get<double>(),
                        network["reduce_gb_s"].get<double>()));
  print(
      "16-bit, fp8: dense TFLOP/s. Memory in GiB. Ridge: FLOPs per byte. Link, NIC: GB/s per GPU "
      "and direction.\n");
  return 0;
}

}  // namespace

Command plan_hardware_command() {
  auto name = std::make_shared<std::string>();
  return {.name = "hardware",
          .help = "List the GPUs that the planner knows, or show one",
          .options = {{.names = "gpu",
                       .help = "A name, or the path of a file such as hardware/h100.toml",
                       .target = &*name,
                       .values = gpu_values()}},
          .run = [name](Context& context) { return run_hardware(*name, context); }};
}

}  // namespace sextant::cli

#pragma once
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "config/config.h"

namespace sextant::cli {

// `config show --mesh`: the ranks, their groups and who owns what.
void show_mesh(Context& context, const Config& config);
// `config show --svg FILE`.
void write_mesh_svg(Context& context, const Config& config, const std::string& path);

struct StatesQuestion {
  int64_t ranks;
  std::string memory, moments;     // "80GB"; "fp32", "bf16" or "" for both
  std::string recipe, parameters;  // a name, "all" or ""; "7B" or ""
};
// `config states`: the calculator of training state.
void show_states(Context& context, const StatesQuestion& question);

// `config activations`: what a layer keeps of the configuration at `path`, beside the published
// formula; `degrees` of tensor parallelism such as "2,4,8", "" for that of the configuration.
void show_activations(Context& context, const std::string& path, const std::string& degrees);

// `config trace`: every operation that a rank issues in a step of the configuration at `path`.
void show_trace(Context& context, const std::string& path, int64_t rank);

}  // namespace sextant::cli

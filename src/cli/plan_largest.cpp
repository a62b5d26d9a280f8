#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "plan/memory.h"

namespace sextant::cli {

// Decimal bytes, as the lecture that this table is from counts them.
int print_largest(const std::string& text, Context& context) {
  SXT_CHECK(!text.empty(), Usage, "--cluster is missing, such as --cluster 8xA100");
  const Cluster cluster = parse_cluster(context.storage, text);
  const double memory = cluster.hardware.memory / (1024.0 * 1024 * 1024) * 1e9;
  const double gpus = static_cast<double>(cluster.gpus);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!context.json)
    print(fmt::format(
        "largest model on {} × {} by its states alone: 16-bit weights and gradients, "
        "fp32 master weights, no activations\n{:<6} {:>22} {:>22}\n",
        cluster.gpus, cluster.hardware.name, "ZeRO", "moments of 2 bytes", "moments of 4 bytes"));
  for (int zero = 0; zero <= 3; ++zero) {
    const double narrow = state_bytes_per_parameter(zero, gpus, 2);
    const double wide = state_bytes_per_parameter(zero, gpus, 4);
    rows.push_back({{"zero", zero},
                    {"bytes_per_parameter", narrow},
                    {"parameters", memory / narrow},
                    {"parameters_fp32_moments", memory / wide}});
    if (!context.json)
      print(fmt::format("{:<6} {:>11.2f}B ({:.4g} B) {:>11.2f}B ({:.4g} B)\n", zero,
                        memory / narrow / 1e9, narrow, memory / wide / 1e9, wide));
  }
  if (context.json) print_json({{"largest", rows}});
  return 0;
}

}  // namespace sextant::cli

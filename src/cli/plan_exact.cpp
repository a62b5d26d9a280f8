#include <algorithm>

#include "base/error.h"
#include "cli/plan_commands.h"
#include "config/load.h"
#include "train/step_time.h"

namespace sextant::cli {
namespace {

constexpr size_t kExact = 5;

}  // namespace

void time_exactly(PlanResult& result, const PlanRequest& request, const std::string& cluster,
                  Context& context) {
  const std::string path = cluster.substr(cluster.find_first_of("xX") + 1);
  if (!path.ends_with(".toml")) return;
  const std::string text = read_text(context.storage, path);
  if (!has_machine(text, path)) return;
  const Machine machine = parse_machine(text, path);
  const auto end =
      result.plans.begin() + static_cast<std::ptrdiff_t>(std::min(kExact, result.plans.size()));
  for (auto plan = result.plans.begin(); plan != end; ++plan) {
    try {
      const std::vector<std::string> none;
      const Config config = parse_config(to_run_file(request, plan->layout), "plan", none).config;
      plan->exact = time_on_machine(config, preflight(config, 0), machine).time.seconds;
    } catch (const Error& error) {
      if (error.fault() != Fault::Memory) throw;
      context.log.detail(to_text(plan->layout) + ": " + error.what());  // the program needs more
    }
  }
  std::stable_sort(result.plans.begin(), end, [](const Plan& a, const Plan& b) {
    return a.exact && (!b.exact || *a.exact < *b.exact);
  });
}

}  // namespace sextant::cli

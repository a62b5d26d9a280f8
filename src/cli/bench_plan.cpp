#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/plan_speed.h"
#include "cli/bench_rows.h"
#include "cli/print.h"

namespace sextant::cli {

Command bench_plan_command() {
  const auto repeats = std::make_shared<int64_t>(5);
  return {"plan",
          "The planner's search for llama-405b on 16,384 H100",
          {{"--repeats", "Searches; the best counts", repeats.get()}},
          [repeats](Context& context) {
            SXT_CHECK(*repeats > 0, Usage, "--repeats ", *repeats, ", must be at least 1");
            const PlanSpeed speed =
                bench_plan(static_cast<int>(*repeats), context.storage, context.clock);
            if (context.json)
              print_json(Json{{"rows",
                               {bench_row("closed forms, one core", speed.layouts_per_s,
                                          "layouts/s", 1e6, {{"evaluated", speed.evaluated}}),
                                bench_row("whole search", speed.search_s, "s", 5.0,
                                          {{"simulated", speed.simulated}})}}});
            else
              print(
                  fmt::format("closed forms  {:.2f} million layouts per second and core ({} in "
                              "{:.3f} s)\nwhole search  {:.3f} s, {} schedules simulated\n",
                              speed.layouts_per_s / 1e6, speed.evaluated, speed.closed_s,
                              speed.search_s, speed.simulated));
            return 0;
          }};
}

}  // namespace sextant::cli

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/out_file.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "plan/elastic.h"
#include "plan/sweep.h"

namespace sextant::cli {

using Json = nlohmann::ordered_json;

int print_elastic(const std::string& text, const std::string& fixed, int64_t batch,
                  Context& context) {
  SXT_CHECK(!text.empty(), Usage, "--cluster is missing, such as --cluster 512xH800");
  const Cluster cluster = parse_cluster(context.storage, text);
  const FixedAxes axes = parse_fixed(fixed);
  const ElasticUnit unit = elastic_unit(axes, cluster.hardware);
  const std::vector<ElasticCount> counts = elastic_counts(axes, cluster, batch);
  if (context.json) {
    Json rows = Json::array();
    for (const ElasticCount& one : counts)
      rows.push_back({{"nodes", one.nodes},
                      {"gpus", one.gpus},
                      {"data_ranks", one.data_ranks},
                      {"batch_divides", one.fits_batch}});
    print_json({{"unit_gpus", unit.gpus},
                {"unit_nodes", unit.nodes},
                {"reason", unit.reason},
                {"counts", rows}});
    return 0;
  }
  print(fmt::format("any multiple of {} {}: {}\n{:>8} {:>8} {:>11}\n", unit.nodes,
                    unit.nodes == 1 ? "node" : "nodes", unit.reason, "nodes", "GPUs",
                    "data ranks"));
  for (const ElasticCount& one : counts)
    print(fmt::format("{:>8} {:>8} {:>11}{}\n", one.nodes, one.gpus, one.data_ranks,
                      one.fits_batch ? "" : fmt::format("  do not divide the batch of {}", batch)));
  return 0;
}

int print_sweep(const PlanRequest& request, const std::string& text, const std::string& svg,
                Context& context) {
  const SweepRequest sweep = parse_sweep(text);
  const std::vector<SweepPoint> points = sweep_plans(request, sweep, Constants{});
  if (!svg.empty())
    write_out_file(context.storage, svg,
                   sweep_picture(sweep, points,
                                 fmt::format("{} on {}: best layout by {}", request.preset,
                                             request.hardware.name, name_of(sweep.axis))));
  Json rows = Json::array();
  if (!context.json)
    print(fmt::format("{:>8} {:>10} {:>10} {:>7} {:>9} {:>9}  {}\n", name_of(sweep.axis), "step",
                      "tokens/s", "MFU", "exposed", "memory", "layout"));
  for (const SweepPoint& point : points) {
    Json row = {{"value", point.value}, {"gpus", point.gpus}};
    if (point.plan) {
      const Plan& plan = *point.plan;
      const double seconds = plan.time.total();
      row["step_s"] = seconds;
      row["tokens_per_s"] = plan.tokens_per_s;
      row["mfu"] = plan.mfu;
      row["exposed_s"] = point.communication;
      row["memory"] = plan.memory.total();
      row["reserved"] = plan.reserved ? Json(*plan.reserved) : Json();
      row["warnings"] = point.warnings;
      row["layout"] = to_text(plan.layout);
      if (!context.json)
        print(fmt::format("{:>8} {:>8.4g} s {:>10} {:>5.1f} % {:>7.1f} % {:>5} GiB  {}\n",
                          point.value, seconds, format_count(plan.tokens_per_s), 100 * plan.mfu,
                          100 * point.communication / seconds, memory_text(plan),
                          to_text(plan.layout)));
    } else {
      row["reason"] = point.reason;
      if (!context.json) print(fmt::format("{:>8} none: {}\n", point.value, point.reason));
    }
    rows.push_back(row);
  }
  // What holds for the last of the values holds for the others, or for some of them.
  if (!context.json && !points.empty())
    for (const std::string& text : points.back().warnings) print("warning: " + text + "\n");
  if (context.json)
    print_json({{"axis", name_of(sweep.axis)}, {"model", request.preset}, {"points", rows}});
  return 0;
}

}  // namespace sextant::cli

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "plan/compare_axes.h"

namespace sextant::cli {

using Json = nlohmann::ordered_json;

int print_axes(const PlanRequest& request, Context& context) {
  const std::vector<AxisComparison> rows = compare_axes(request, Constants{});
  if (context.json) {
    Json all = Json::array();
    for (const AxisComparison& row : rows) {
      Json one = {{"axis", row.axis}};
      if (!row.refusal.empty()) {
        one["refused"] = row.refusal;
      } else {
        one.update({{"exchanges", row.exchanges},
                    {"sent", row.sent},
                    {"states", row.memory.weights + row.memory.gradients + row.memory.optimizer},
                    {"activations", row.memory.activations + row.memory.logits},
                    {"memory", row.memory.total()},
                    {"fits", row.fits},
                    {"least_batch", row.batch},
                    {"step_s", row.time.total()},
                    {"exposed_s", row.exposed}});
      }
      all.push_back(one);
    }
    print_json({{"model", request.preset},
                {"gpus", request.gpus},
                {"gpu", request.hardware.name},
                {"batch", request.batch},
                {"axes", all}});
    return 0;
  }
  print(fmt::format(
      "{} on {} × {}, {} sequences of {} tokens, all ranks on one axis\n{:<21} {:>9} "
      "{:>11} {:>10} {:>6} {:>9} {:>8}  {}\n",
      request.preset, request.gpus, request.hardware.name, request.batch, request.shape.seq, "axis",
      "states", "activations", "sent", "batch", "step", "exposed", "exchanges"));
  for (const AxisComparison& row : rows) {
    if (!row.refusal.empty()) {
      print(fmt::format("{:<21} {}\n", row.axis, row.refusal));
      continue;
    }
    const double states = row.memory.weights + row.memory.gradients + row.memory.optimizer;
    print(fmt::format("{:<21} {:>5.1f} GiB {:>7.1f} GiB {:>10} {:>6} {:>7.3g} s {:>6.1f} %  {}{}\n",
                      row.axis, states / kGiB, (row.memory.activations + row.memory.logits) / kGiB,
                      format_bytes(static_cast<int64_t>(row.sent)), row.batch, row.time.total(),
                      100 * row.exposed / row.time.total(), row.exchanges,
                      row.fits ? "" : "; does not fit"));
  }
  print(
      "states: weights, gradients, optimizer. sent: by a rank in a step. batch: the least that "
      "gives every rank work.\n");
  return 0;
}

}  // namespace sextant::cli

#include "plan/compare_axes.h"

#include <fmt/format.h>

namespace sextant {
namespace {

struct Axis {
  const char* name;
  Layout layout;
};

std::vector<Axis> axes_of(const PlanRequest& request) {
  const int n = static_cast<int>(request.gpus);
  std::vector<Axis> out = {{"data parallel (DDP)", {.dp = n}},
                           {"ZeRO-1", {.shard = n, .zero = 1}},
                           {"ZeRO-2", {.shard = n, .zero = 2}},
                           {"ZeRO-3 (FSDP)", {.shard = n, .zero = 3}},
                           {"tensor", {.tp = n}},
                           {"tensor and sequence", {.tp = n, .sequence = true}},
                           {"context (ring)", {.cp = n}},
                           {"pipeline (1F1B)", {.pp = n}}};
  if (request.shape.experts > 0) out.push_back({"expert, over DDP", {.dp = n, .ep = n}});
  return out;
}

// What a rank exchanges, and how often in a step of m micro-batches of L layers.
std::string exchanges_of(const Layout& l, double micros, double layers) {
  if (l.tp > 1)
    return fmt::format("{} of a layer's hidden states, {:.0f} times",
                       l.sequence ? "all-gather and reduce-scatter" : "all-reduce",
                       4 * layers * micros);
  if (l.cp > 1) return fmt::format("keys and values around, {:.0f} times", 2 * layers * micros);
  if (l.pp > 1) return fmt::format("hidden states to a neighbour, {:.0f} times", 2 * micros);
  if (l.ep > 1)
    return fmt::format("all-to-all of tokens, {:.0f} times; gradients once", 4 * layers * micros);
  if (l.zero == 0) return "all-reduce of gradients, once";
  if (l.zero == 1) return "reduce-scatter of gradients, all-gather of weights, once";
  if (l.zero == 2)
    return fmt::format("reduce-scatter of gradients, {:.0f} times; weights once", micros);
  return fmt::format("all-gather of weights, {:.0f} times; gradients, {:.0f} times", 2 * micros,
                     micros);
}

double exposed_of(const StepTerms& t) {
  return t.tp + t.cp + t.ep + t.pipeline + t.messages + t.data;
}

std::string misfit(const PlanRequest& request, const Layout& l) {
  if (request.batch % l.data_ranks() != 0)
    return fmt::format("a batch of {} does not divide by {}", request.batch, l.data_ranks());
  if (l.pp > request.shape.layers)
    return fmt::format("{} layers, fewer than stages", request.shape.layers);
  return refusal_of(request, l);
}

}  // namespace

std::vector<AxisComparison> compare_axes(const PlanRequest& request, const Constants& constants) {
  std::vector<AxisComparison> out;
  for (const Axis& axis : axes_of(request)) {
    AxisComparison row;
    row.axis = axis.name;
    row.layout = axis.layout;
    row.refusal = misfit(request, axis.layout);
    if (row.refusal.empty()) {
      const Case asked = case_of(request, axis.layout);
      const double layers = stage_layers(request.shape.layers, axis.layout.pp).middle;
      row.exchanges = exchanges_of(axis.layout, static_cast<double>(asked.micros()), layers);
      row.memory = memory_use(asked, constants);
      row.fits = fits(asked, row.memory);
      const AxisBytes bytes = axis_bytes(asked);
      row.sent = bytes.tp + bytes.cp + bytes.ep + bytes.pp + bytes.data;
      row.batch = axis.layout.data_ranks() * axis.layout.pp;  // a full pipeline has pp in flight
      row.time = simulated_step_time(asked, constants, 200'000);
      row.exposed = exposed_of(row.time);
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace sextant

#include "sim/suggest_split.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "program/stages.h"
#include "sim/measured.h"

namespace sextant {
namespace {

constexpr double kWorthwhile = 0.03;

// Time of forward and backward of each layer; empty when a layer has no span.
std::vector<double> layer_times(std::span<const Span> spans, const Blueprint& blueprint) {
  std::map<std::string, std::vector<double>> taken;
  for (const Span& span : spans)
    if (span.lane == 0) taken[span.name].push_back(span.end - span.begin);
  const auto time_of = [&](const char* pass, const LayerSpec& layer) {
    const auto found = taken.find(concat(pass, " ", layer.name));
    return found == taken.end() ? 0 : median(found->second);
  };
  std::vector<double> times;
  for (const LayerSpec& layer : blueprint.layers) {
    const double split = time_of("backward input", layer) + time_of("backward weight", layer);
    const double forward = time_of("forward", layer),
                 backward = split > 0 ? split : time_of("backward", layer);
    if (forward <= 0 || backward <= 0) return {};
    times.push_back(forward + backward);
  }
  return times;
}

double costliest(std::span<const double> layers, std::span<const Range> stages) {
  double most = 0;
  for (const Range& stage : stages) {
    double sum = 0;
    for (int64_t layer = stage.begin; layer < stage.end; ++layer)
      sum += layers[static_cast<size_t>(layer)];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

std::optional<SplitAdvice> suggest_split(std::span<const Span> spans, const Blueprint& blueprint,
                                         std::span<const Range> stages) {
  const std::vector<double> layers = layer_times(spans, blueprint);
  if (layers.empty()) return {};
  std::vector<double> units;  // embedding, blocks, head
  for (size_t layer = 0; layer < layers.size(); ++layer)
    if (is_feed_forward(blueprint.layers[layer].kind))
      units.back() += layers[layer];
    else
      units.push_back(layers[layer]);
  SplitAdvice advice;
  for (const int count : balance(units, static_cast<int>(stages.size())))
    advice.split += concat(advice.split.empty() ? "" : ",", count);
  advice.now = costliest(layers, stages);
  advice.then =
      costliest(layers, split_stages(blueprint, static_cast<int>(stages.size()), advice.split));
  if (advice.then > (1 - kWorthwhile) * advice.now) return {};
  return advice;
}

}  // namespace sextant

#include "train/routing_record.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace sextant {

double RoutingRecord::imbalance() const {
  double largest = 0;
  for (const std::vector<int64_t>& layer : expert_tokens) {
    const auto sum = static_cast<double>(std::accumulate(layer.begin(), layer.end(), int64_t{0}));
    const auto most = static_cast<double>(*std::ranges::max_element(layer));
    if (sum > 0) largest = std::max(largest, most * static_cast<double>(layer.size()) / sum);
  }
  return largest;
}

double RoutingRecord::dropped_share() const {
  int64_t all = 0;
  for (const std::vector<int64_t>& layer : expert_tokens)
    all = std::accumulate(layer.begin(), layer.end(), all);
  return all == 0 ? 0 : static_cast<double>(dropped) / static_cast<double>(all);
}

// A rank has the tokens that it routed in the layers that it holds.
RoutingRecord gather_routing(ControlPlane& world, const Blueprint& blueprint, const RankPart& part,
                             std::span<const double> own, int64_t units) {
  const auto layers = static_cast<size_t>(blueprint.model.layers);
  const auto width = static_cast<size_t>(3 + blueprint.model.experts);
  std::vector<double> all(layers * width);
  SXT_CHECK(own.size() % width == 0, Internal, own.size(), " sums of routing, not rows of ", width);
  size_t row = 0;
  for (const size_t layer : part.layers) {
    if (blueprint.layers[layer].kind != LayerKind::Experts) continue;
    const size_t block = (layer - 1) / 2;  // an embedding, then two layers per block
    for (size_t i = 0; i < width; ++i) all[block * width + i] += own[row * width + i];
    ++row;
  }
  world.all_reduce(std::span(all), ReduceOp::Sum);
  RoutingRecord record;
  const double scale = 1 / static_cast<double>(units * blueprint.expert_layers());
  const size_t first = layers - static_cast<size_t>(blueprint.expert_layers());
  for (size_t block = first; block < layers; ++block) {
    const double* of = all.data() + block * width;
    record.balance_loss += of[0] * scale;
    record.router_z_loss += of[1] * scale;
    record.expert_tokens.emplace_back(of + 2, of + width - 1);
    record.dropped += static_cast<int64_t>(of[width - 1]);
  }
  return record;
}

}  // namespace sextant

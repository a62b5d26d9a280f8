#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "blueprint/blueprint.h"
#include "comm/control.h"
#include "program/rank_part.h"

namespace sextant {

// Where the routers sent the tokens of a step, over all ranks and micro-batches.
struct RoutingRecord {
  double balance_loss = 0;   // mean over layers and micro-batches; 1 when balanced
  double router_z_loss = 0;  // likewise
  // Choices by layer with experts, by expert; dropped ones (train.capacity_factor) are among them.
  std::vector<std::vector<int64_t>> expert_tokens;
  int64_t dropped = 0;  // choices that no expert computed, over all layers

  double dropped_share() const;  // of all choices

  // Of the layer where it is largest: tokens of the busiest expert over the mean.
  double imbalance() const;
};

// `own`: Executor::routing of a rank that holds `part`; `units`: micro-batches of the global batch.
// Collective over the world, whose control plane is given.
RoutingRecord gather_routing(ControlPlane& world, const Blueprint& blueprint, const RankPart& part,
                             std::span<const double> own, int64_t units);

}  // namespace sextant

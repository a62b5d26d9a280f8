#pragma once
#include "plan/case.h"
#include "plan/constants.h"

namespace sextant {

// Seconds of one layer (or embedding, or head) for one micro-batch on one rank.
struct LayerTime {
  // Compute
  double gemm = 0, attention = 0, elements = 0, launches = 0;  // forward and backward together
  double forward = 0, input = 0, weight = 0;                   // the same time, by phase
  double again = 0;                                            // recomputed in backward
  // Exposed communication, by phase, part of neither of the above.
  double tp_forward = 0, tp_backward = 0;
  double cp_forward = 0, cp_backward = 0;
  double ep_forward = 0, ep_backward = 0;
  double total() const {
    return forward + input + weight + again + tp_forward + tp_backward + cp_forward + cp_backward +
           ep_forward + ep_backward;
  }
};

enum class PricedLayer { Dense, Experts, Head, Embedding };
LayerTime layer_time(const Case& asked, const Constants& constants, PricedLayer kind);

// All kinds that a model has; the others stay empty. Independent of pp, dp, shard and schedule.
struct LayerTimes {
  LayerTime dense, sparse, embedding, head;
};
LayerTimes layer_times(const Case& asked, const Constants& constants);

}  // namespace sextant

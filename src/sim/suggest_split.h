#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/span_log.h"
#include "program/rank_part.h"

namespace sextant {

// A better balanced number of blocks per stage.
struct SplitAdvice {
  std::string split;  // for parallel.split: "7,6,6,5"
  double now = 0,
         then = 0;  // time of the costliest stage for one micro-batch, forward and backward
};

// Uses the median measured times of each layer's passes, which the model records as spans ("forward
// layers.3.mlp"). Nullopt when the gain is below 3 %, or a layer has no span.
std::optional<SplitAdvice> suggest_split(std::span<const Span> spans, const Blueprint& blueprint,
                                         std::span<const Range> stages);

}  // namespace sextant

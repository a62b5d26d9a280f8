#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/span_log.h"
#include "program/rank_part.h"

namespace sextant {

// A division of the blocks over the stages that makes the costliest stage cheaper.
struct SplitAdvice {
  std::string split;  // for parallel.split: "7,6,6,5"
  double now = 0,
         then = 0;  // time of the costliest stage for one micro-batch, forward and backward
};

// From the time that each layer took in a run: the medians of its passes, which the model leaves as
// spans ("forward layers.3.mlp"). Nothing when the gain is below 3 %, or a layer has no span.
std::optional<SplitAdvice> suggest_split(std::span<const Span> spans, const Blueprint& blueprint,
                                         std::span<const Range> stages);

}  // namespace sextant

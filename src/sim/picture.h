#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "schedule/schedule.h"
#include "schedule/stage_cost.h"
#include "sim/timeline.h"

namespace sextant {

// One line per rank, at most `width` columns. If they suffice, one cell per unit of time:
//   rank 0  F0 F1 .. .. B0 B0 B1 B1
// otherwise each action from start to end, with its micro if it fits, "." for idle:
//   rank 0  F0F1....B0--B1--
// An overlapped block has one name, "F3&B0".
std::string timeline_text(const Schedule& schedule, const Timeline& timeline, int width);

// An SVG with one row per rank: its actions coloured by kind, lighter by chunk, numbered by micro;
// below it, on the same time axis, the rank's memory. Error(Usage) when there are too many actions
// to draw.
std::string timeline_svg(const Schedule& schedule, const Timeline& timeline,
                         std::span<const StageCost> costs);

// For formats/chrome_trace.h; a unit of time becomes a second.
std::vector<Span> timeline_spans(const Schedule& schedule, const Timeline& timeline);

}  // namespace sextant

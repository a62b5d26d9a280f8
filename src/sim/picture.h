#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "schedule/schedule.h"
#include "schedule/stage_cost.h"
#include "sim/timeline.h"

namespace sextant {

// One line per rank, at most `width` columns. Where they suffice, a cell for each unit of time:
//   rank 0  F0 F1 .. .. B0 B0 B1 B1
// else each action from its start to its end, with its number where that fits, "." for idle:
//   rank 0  F0F1....B0--B1--
// A block that really overlaps is one name, "F3&B0".
std::string timeline_text(const Schedule& schedule, const Timeline& timeline, int width);

// A drawing: a row for each rank with its operations, coloured by kind, lighter by chunk, numbered
// by micro; below, on the same axis of time, what each rank holds. Error(Usage) when there are more
// actions than a picture can show.
std::string timeline_svg(const Schedule& schedule, const Timeline& timeline,
                         std::span<const StageCost> costs);

// For formats/chrome_trace.h; a unit of time becomes a second.
std::vector<Span> timeline_spans(const Schedule& schedule, const Timeline& timeline);

}  // namespace sextant

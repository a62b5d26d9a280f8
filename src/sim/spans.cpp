#include "base/error.h"
#include "schedule/print.h"
#include "sim/picture.h"

namespace sextant {

std::vector<Span> timeline_spans(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Span> spans;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (const TimedAction& timed : timeline.ranks[rank])
      spans.push_back({"compute",
                       concat(to_string(schedule, timed.action), " stage ", timed.action.stage),
                       static_cast<int>(rank), 0, timed.start, timed.end});
  return spans;
}

}  // namespace sextant

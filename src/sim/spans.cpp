#include "base/error.h"
#include "sim/picture.h"

namespace sextant {

std::string action_label(const Schedule& schedule, const Action& action) {
  const int chunk = schedule.chunk_of(action.stage, action.micro);
  const bool is_v = schedule.placement == Placement::V;
  const char letter = action.kind == Kind::F ? 'F' : action.kind == Kind::W ? 'W' : 'B';
  std::string label(1, is_v && chunk == 1 ? static_cast<char>(letter - 'A' + 'a') : letter);
  label += std::to_string(action.micro);
  if (!is_v && schedule.chunks() > 1) label += concat(".", chunk);
  return label;
}

std::vector<Span> timeline_spans(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Span> spans;
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (const TimedAction& timed : timeline.ranks[rank])
      spans.push_back({"compute",
                       concat(action_label(schedule, timed.action), " stage ", timed.action.stage),
                       static_cast<int>(rank), 0, timed.start, timed.end});
  return spans;
}

}  // namespace sextant

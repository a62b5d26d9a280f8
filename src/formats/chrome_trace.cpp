#include "formats/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Json name_row(const char* what, int rank, int lane, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

std::string chrome_trace(std::span<const Span> spans) {
  double first = std::numeric_limits<double>::max();
  std::set<std::pair<int, int>> rows;
  for (const Span& span : spans) {
    first = std::min(first, span.begin);
    rows.emplace(span.rank, span.lane);
  }
  Json events = Json::array();
  int last_rank = -1;
  for (const auto& [rank, lane] : rows) {
    if (rank != last_rank)
      events.push_back(name_row("process_name", rank, 0, fmt::format("rank {}", rank)));
    events.push_back(name_row("thread_name", rank, lane, lane == 0 ? "compute" : "courier"));
    last_rank = rank;
  }
  for (const Span& span : spans)
    events.push_back({{"name", span.name},
                      {"cat", span.kind},
                      {"ph", "X"},
                      {"pid", span.rank},
                      {"tid", span.lane},
                      {"ts", (span.begin - first) * 1e6},
                      {"dur", (span.end - span.begin) * 1e6}});
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace sextant

#include "formats/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;  // in a second

Json name_row(const char* what, int rank, int lane, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

const char* known_kind(const std::string& kind) {
  for (const char* known : {"step", "compute", "comm", "post", "wait", "optimizer", "kernel"})
    if (kind == known) return known;
  return "";
}

std::string name_of_lane(int lane) {
  if (lane == 0) return "compute";
  if (lane < kDeviceLane) return "progress thread";
  return lane == kDeviceLane ? "GPU compute"
                             : fmt::format("GPU communication {}", lane - kDeviceLane);
}

// The same in every process, so that traces of several fit together. FNV-1a, as many bits as a JSON
// number keeps.
uint64_t id_of(const std::string& message) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : message) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash >> 11;
}

// One end of the arrow of a message. A receive ends after its send began.
Json arrow_end(const Span& span, double begin_us, double length_us) {
  constexpr double kInside = 0.999;  // of the span, to which viewers tie the end by its time
  Json end = {{"name", "message"},
              {"cat", "message"},
              {"ph", span.is_received ? "f" : "s"},
              {"id", id_of(span.message)},
              {"pid", span.rank},
              {"tid", span.lane},
              {"ts", span.is_received ? begin_us + kInside * length_us : begin_us}};
  if (span.is_received) end["bp"] = "e";
  return end;
}

// One event of a trace, and where it is, for what is wrong with it.
class Event {
 public:
  Event(const nlohmann::json& json, size_t index, const std::string& what)
      : json_(json), index_(index), what_(what) {
    SXT_CHECK(json.is_object(), Data, what_, ": event ", index_, " of the trace is no object");
  }
  const std::string& text(const char* key) const {
    const nlohmann::json& value = at(key);
    SXT_CHECK(value.is_string(), Data, what_, ": event ", index_, ": ", key, " is no text");
    return value.get_ref<const std::string&>();
  }
  std::string text_or_none(const char* key) const { return json_.contains(key) ? text(key) : ""; }
  double number(const char* key) const {
    const nlohmann::json& value = at(key);
    SXT_CHECK(value.is_number() && std::isfinite(value.get<double>()), Data, what_, ": event ",
              index_, ": ", key, " is no number");
    return value.get<double>();
  }
  int whole(const char* key) const {
    const double value = number(key);
    SXT_CHECK(value >= 0 && value <= std::numeric_limits<int>::max() && value == std::floor(value),
              Data, what_, ": event ", index_, ": ", key, " is ", value,
              ", must be a whole number from 0 on");
    return static_cast<int>(value);
  }

 private:
  const nlohmann::json& at(const char* key) const {
    const auto found = json_.find(key);
    SXT_CHECK(found != json_.end(), Data, what_, ": event ", index_, " of the trace has no ", key);
    return *found;
  }

  const nlohmann::json& json_;
  size_t index_;
  const std::string& what_;
};

double start_of(const nlohmann::json& trace, const std::string& what) {
  const auto other = trace.find("otherData");
  if (other == trace.end() || !other->is_object() || !other->contains("start_s")) return 0;
  const nlohmann::json& start = (*other)["start_s"];
  SXT_CHECK(start.is_number() && std::isfinite(start.get<double>()), Data, what,
            ": start_s of the trace is no number");
  return start.get<double>();
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
    events.push_back(name_row("thread_name", rank, lane, name_of_lane(lane)));
    last_rank = rank;
  }
  for (const Span& span : spans) {
    const double begin = (span.begin - first) * kMicroseconds,
                 length = (span.end - span.begin) * kMicroseconds;
    events.push_back({{"name", span.name},
                      {"cat", span.kind},
                      {"ph", "X"},
                      {"pid", span.rank},
                      {"tid", span.lane},
                      {"ts", begin},
                      {"dur", length}});
    if (span.bytes >= 0) events.back()["args"] = {{"bytes", span.bytes}};
    if (!span.message.empty()) events.push_back(arrow_end(span, begin, length));
  }
  Json trace = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  if (!spans.empty()) trace["otherData"] = {{"start_s", first}};
  return trace.dump() + "\n";
}

std::vector<Span> read_chrome_trace(std::string_view text, const std::string& what) {
  const nlohmann::json trace = parse_json_strict(text, what);
  SXT_CHECK(trace.is_object() && trace.contains("traceEvents") && trace["traceEvents"].is_array(),
            Data, what, " is no Chrome trace: it has no list of traceEvents");
  const double first = start_of(trace, what);
  std::vector<Span> spans;
  size_t index = 0;
  for (const nlohmann::json& json : trace["traceEvents"]) {
    const Event event(json, index++, what);
    if (event.text("ph") != "X") continue;
    const double begin = first + event.number("ts") / kMicroseconds,
                 length = event.number("dur") / kMicroseconds;
    SXT_CHECK(length >= 0, Data, what, ": event ", index - 1, ": dur is below 0");
    spans.push_back({known_kind(event.text_or_none("cat")), event.text("name"), event.whole("pid"),
                     event.whole("tid"), begin, begin + length});
  }
  return spans;
}

}  // namespace sextant

#include "formats/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

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

constexpr double kInside = 0.999;  // of a span, to which viewers tie an arrow's end by its time

// One end of an arrow, which begins ("s") or ends ("f") in the span that is on this row then.
struct ArrowEnd {
  const char* phase;
  int rank, lane;
  double at_us;
};

Json arrow_end(const char* name, uint64_t id, const ArrowEnd& end) {
  Json event = {{"name", name},    {"cat", name},     {"ph", end.phase}, {"id", id},
                {"pid", end.rank}, {"tid", end.lane}, {"ts", end.at_us}};
  if (*end.phase == 'f') event["bp"] = "e";
  return event;
}

Json args_of(const Span& span) {
  Json args = Json::object();
  if (span.bytes >= 0) args["bytes"] = span.bytes;
  for (const SpanFact& fact : span.facts)
    args[fact.name] = fact.texts.empty() ? Json(fact.number) : Json(fact.texts);
  return args;
}

// The list of events as text: a document of all of them would be several times larger.
class EventList {
 public:
  explicit EventList(double first) : first_(first) {}

  void add(const Json& event) {
    text_ += text_.empty() ? "" : ",";
    text_ += event.dump();
  }

  void add(const Span& span) {
    const double begin = micros(span.begin), length = micros(span.end) - begin;
    Json event = {{"name", span.name}, {"cat", span.kind}, {"ph", "X"},    {"pid", span.rank},
                  {"tid", span.lane},  {"ts", begin},      {"dur", length}};
    if (Json args = args_of(span); !args.empty()) event["args"] = std::move(args);
    add(event);
    // A receive ends after its send began.
    if (!span.message.empty())
      add(arrow_end("message", id_of(span.message),
                    {span.is_received ? "f" : "s", span.rank, span.lane,
                     span.is_received ? begin + kInside * length : begin}));
    for (const SpanPlace& other : span.waits) add_wait(span, other);
  }

  const std::string& text() const { return text_; }

 private:
  double micros(double time) const { return (time - first_) * kMicroseconds; }

  void add_wait(const Span& span, const SpanPlace& other) {
    const uint64_t id = id_of(fmt::format("wait {} of rank {}", ++waits_, span.rank));
    const double begin = micros(other.begin), length = micros(other.end) - begin;
    add(arrow_end("wait", id, {"s", span.rank, other.lane, begin + kInside * length}));
    add(arrow_end("wait", id, {"f", span.rank, span.lane, micros(span.begin)}));
  }

  double first_;
  std::string text_;
  int64_t waits_ = 0;
};

std::string lane_name(const Span& span) {
  return span.lane_name.empty() ? name_of_lane(span.lane) : span.lane_name;
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
  std::map<std::pair<int, int>, std::string> rows;
  for (const Span& span : spans) {
    first = std::min(first, span.begin);
    const auto [row, is_new] = rows.try_emplace({span.rank, span.lane});
    if (is_new) row->second = lane_name(span);
  }
  EventList events(first);
  int last_rank = -1;
  for (const auto& [row, name] : rows) {
    const auto [rank, lane] = row;
    if (rank != last_rank)
      events.add(name_row("process_name", rank, 0, fmt::format("rank {}", rank)));
    events.add(name_row("thread_name", rank, lane, name));
    last_rank = rank;
  }
  for (const Span& span : spans) events.add(span);
  std::string out = concat("{\"traceEvents\":[", events.text(), "],\"displayTimeUnit\":\"ms\"");
  if (!spans.empty()) out += concat(",\"otherData\":", Json{{"start_s", first}}.dump());
  return out + "}\n";
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

// Vector clocks: the clock of an operation gives, per lane, the last operation that is certainly
// done when it starts. Memory is a map of segments with the last read and write of each lane. An
// access races with another lane's last access if its clock does not cover that one.
#include "trace/race.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "trace/compare.h"

namespace sextant {
namespace {

constexpr int64_t kNone = -1;

// The last operations that accessed a range of bytes, by lane.
struct Segment {
  int64_t end = 0;
  std::vector<int64_t> reads, writes;  // indices in Trace::ops
};

class Clocks {
 public:
  explicit Clocks(const Trace& trace)
      : trace_(trace), lanes_(trace.lanes.size()), reached_(lanes_, kNone) {
    clocks_.reserve(trace.ops.size() * lanes_);
  }

  // The next operation, in the order issued.
  void add(uint32_t op) {
    const auto lane = static_cast<size_t>(trace_.ops[op].lane);
    clocks_.resize(clocks_.size() + lanes_, kNone);
    if (reached_[lane] != kNone) join(op, static_cast<uint32_t>(reached_[lane]));
    for (const uint32_t wait : trace_.waits_of(trace_.ops[op])) join(op, wait);
    at(op, lane) = op;
    reached_[lane] = op;
  }

  // By lane: the last operation that is certainly done when this one starts, or this one itself.
  int64_t& at(uint32_t op, size_t lane) { return clocks_[op * lanes_ + lane]; }

 private:
  void join(uint32_t op, uint32_t other) {
    for (size_t lane = 0; lane < lanes_; ++lane)
      at(op, lane) = std::max(at(op, lane), at(other, lane));
  }

  const Trace& trace_;
  size_t lanes_;
  std::vector<int64_t> clocks_;   // [ops, lanes]
  std::vector<int64_t> reached_;  // last operation of each lane
};

class RaceFinder {
 public:
  RaceFinder(const Trace& trace, size_t most)
      : trace_(trace), most_(most), lanes_(trace.lanes.size()), clocks_(trace) {}

  std::vector<Race> run() {
    for (uint32_t op = 0; op < trace_.ops.size() && races_.size() < most_; ++op) {
      clocks_.add(op);
      for (const TraceOperand& operand : trace_.operands_of(trace_.ops[op]))
        if (operand.end > operand.begin) touch(op, operand);
    }
    return races_;
  }

 private:
  // Splits the segment that contains `at`, so that a segment begins there.
  void cut(int64_t at) {
    auto next = segments_.upper_bound(at);
    if (next == segments_.begin()) return;
    auto& [begin, segment] = *std::prev(next);
    if (begin == at || segment.end <= at) return;
    Segment rest = segment;
    segment.end = at;
    segments_.emplace_hint(next, at, std::move(rest));
  }

  void touch(uint32_t op, const TraceOperand& operand) {
    cut(operand.begin);
    cut(operand.end);
    int64_t at = operand.begin;
    while (at < operand.end) {
      auto found = segments_.lower_bound(at);
      if (found == segments_.end() || found->first > at) {
        const int64_t end =
            found == segments_.end() ? operand.end : std::min(operand.end, found->first);
        found = segments_.emplace_hint(
            found, at,
            Segment{end, std::vector<int64_t>(lanes_, kNone), std::vector<int64_t>(lanes_, kNone)});
      }
      access(op, found->first, found->second, operand.is_written);
      at = found->second.end;
    }
  }

  void access(uint32_t op, int64_t begin, Segment& segment, bool is_written) {
    const auto own = static_cast<size_t>(trace_.ops[op].lane);
    for (size_t lane = 0; lane < lanes_; ++lane) {
      if (lane == own) continue;
      const int64_t last =
          is_written ? std::max(segment.reads[lane], segment.writes[lane]) : segment.writes[lane];
      if (last <= clocks_.at(op, lane)) continue;
      if (races_.size() < most_)
        races_.push_back({static_cast<uint32_t>(last), op, begin, segment.end});
    }
    (is_written ? segment.writes : segment.reads)[own] = op;
  }

  const Trace& trace_;
  size_t most_, lanes_;
  Clocks clocks_;
  std::map<int64_t, Segment> segments_;
  std::vector<Race> races_;
};

}  // namespace

std::vector<Race> find_races(const Trace& trace, size_t most) {
  return RaceFinder(trace, most).run();
}

bool is_ordered(const Trace& trace, uint32_t earlier, uint32_t later) {
  Clocks clocks(trace);
  for (uint32_t op = 0; op <= later; ++op) clocks.add(op);
  return clocks.at(later, static_cast<size_t>(trace.ops[earlier].lane)) >= earlier;
}

std::string to_string(const Trace& trace, const Race& race) {
  return concat(to_string(trace, trace.ops[race.later]), " is not ordered behind ",
                to_string(trace, trace.ops[race.earlier]), ", which touches bytes ", race.begin,
                "...", race.end, " too");
}

}  // namespace sextant

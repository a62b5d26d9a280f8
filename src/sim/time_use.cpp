#include "sim/time_use.h"

#include <algorithm>
#include <utility>

#include "trace/spans.h"

namespace sextant {
namespace {

constexpr uint32_t kNoOp = UINT32_MAX;

// How long communication ran since the compute lane became free: the operation that was waited for,
// and back through the operations that it waited for.
double running_before(const Trace& trace, const std::vector<OpTimes>& times,
                      const std::vector<uint32_t>& before, uint32_t waited_for, double free) {
  double running = 0;
  uint32_t op = waited_for;
  while (op != kNoOp && times[op].end > free) {
    running += times[op].end - std::max(free, times[op].start);
    uint32_t next = kNoOp;
    const auto consider = [&](uint32_t other) {
      if (trace.ops[other].lane != Trace::kCompute && times[other].end == times[op].start)
        next = other;
    };
    if (before[op] != kNoOp) consider(before[op]);
    for (const uint32_t wait : trace.waits_of(trace.ops[op])) consider(wait);
    op = next;
  }
  return running;
}

}  // namespace

TimeUse time_use(const Trace& trace, const std::vector<OpTimes>& times, size_t first, size_t last) {
  TimeUse use;
  use.busy.resize(trace.lanes.size());
  std::vector<uint32_t> before(trace.ops.size(), kNoOp), last_of(trace.lanes.size(), kNoOp);
  double free = 0;  // when the compute lane is free
  uint32_t latest = kNoOp;
  for (uint32_t i = 0; i < last; ++i) {
    const TraceOp& op = trace.ops[i];
    const auto lane = static_cast<size_t>(op.lane);
    before[i] = std::exchange(last_of[lane], i);
    const double idle = times[i].start - free;
    if (i >= first) {
      use.busy[lane] += times[i].end - times[i].start;
      if (latest == kNoOp || times[i].end > times[latest].end) latest = i;
    }
    if (op.lane != Trace::kCompute) continue;
    if (i >= first && idle > 0) {
      uint32_t waited_for = kNoOp;
      for (const uint32_t wait : trace.waits_of(op))
        if (times[wait].end == times[i].start) waited_for = wait;
      const double running = running_before(trace, times, before, waited_for, free);
      use.exposed += running;
      use.waiting += idle - running;
    }
    free = times[i].end;
  }
  use.compute = use.busy[Trace::kCompute];
  if (latest == kNoOp) return use;
  use.end = times[latest].end;
  if (use.end <= free) return use;
  const double running = running_before(trace, times, before, latest, free);
  use.exposed += running;
  use.waiting += use.end - free - running;
  return use;
}

std::vector<Span> timed_spans(const RankTrace& rank, const std::vector<OpTimes>& times,
                              size_t first, size_t last, double origin) {
  return spans_of(rank.trace, rank.rank, first, last, [&](size_t op) {
    return OpInterval{times[op].start - origin, times[op].end - origin};
  });
}

}  // namespace sextant

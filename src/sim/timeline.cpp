#include "sim/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace sextant {
namespace {

double freed_by(Kind kind, const StageCost& cost) {
  if (kind == Kind::B) return cost.activation_memory;
  if (kind == Kind::I) return cost.activation_memory - cost.memory_for_weight_grad;
  return kind == Kind::W ? cost.memory_for_weight_grad : 0;
}

// Of the ranks that end last, within `apart`, the most idle one.
size_t last_to_end(const std::vector<double>& ends, const std::vector<double>& idle, double apart) {
  const double end = *std::ranges::max_element(ends);
  size_t last = ends.size();
  for (size_t rank = 0; rank < ends.size(); ++rank)
    if (ends[rank] >= end - apart && (last == ends.size() || idle[rank] > idle[last])) last = rank;
  return last;
}

}  // namespace

Figures measure(const Timeline& timeline, double together) {
  SXT_CHECK(!timeline.ranks.empty(), Internal, "figures of a timeline without ranks");
  const size_t ranks = timeline.ranks.size();
  Figures figures;
  std::vector<double> ends;
  double begin = std::numeric_limits<double>::max(), end = -begin, longest = 0, total = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<TimedAction>& did = timeline.ranks[rank];
    SXT_CHECK(!did.empty(), Internal, "figures of a timeline where rank ", rank, " did nothing");
    double idle = 0, work = 0, free = did[0].start;
    for (const TimedAction& timed : did) {
      idle += std::max(0.0, timed.start - free);
      work += std::max(0.0, timed.end - std::max(timed.start, free));
      free = std::max(free, timed.end);
    }
    ends.push_back(free);
    figures.idle.push_back(idle);
    figures.work.push_back(work);
    begin = std::min(begin, did[0].start);
    end = std::max(end, free);
    longest = std::max(longest, free - did[0].start);
    total += work;
  }
  figures.makespan = end - begin;
  figures.span_bubble = longest - *std::ranges::max_element(figures.work);
  // Sums of times are equal only up to rounding.
  const double apart = together * figures.makespan + 1e-12 * std::abs(end);
  const size_t last = last_to_end(ends, figures.idle, apart);
  figures.last = static_cast<int>(last);
  if (figures.makespan > 0) {
    figures.bubble_fraction = figures.idle[last] / figures.makespan;
    figures.utilisation = total / (static_cast<double>(ranks) * figures.makespan);
  }
  if (figures.work[last] > 0) figures.bubble_overhead = figures.idle[last] / figures.work[last];
  return figures;
}

std::vector<MemoryPoint> memory_curve(const std::vector<TimedAction>& rank,
                                      std::span<const StageCost> costs) {
  const auto cost_of = [&](const TimedAction& timed) -> const StageCost& {
    return costs[costs.size() == 1 ? 0 : static_cast<size_t>(timed.action.stage)];
  };
  std::vector<MemoryPoint> curve;
  double held = 0;
  const auto add = [&](double time, double change) {
    if (change == 0) return;
    held += change;
    curve.push_back({time, held});
  };
  for (size_t first = 0; first < rank.size();) {
    // Overlapping actions allocate before they free.
    size_t last = first + 1;
    while (last < rank.size() && rank[last].start < rank[last - 1].end) ++last;
    for (size_t i = first; i < last; ++i)
      if (rank[i].action.kind == Kind::F) add(rank[i].start, cost_of(rank[i]).activation_memory);
    for (size_t i = first; i < last; ++i)
      add(rank[i].end, -freed_by(rank[i].action.kind, cost_of(rank[i])));
    first = last;
  }
  return curve;
}

}  // namespace sextant

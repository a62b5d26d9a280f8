#include "trace/arena_plan.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

// The lowest offset with `bytes` free between the taken ranges.
int64_t first_fit(std::vector<Range> taken, int64_t bytes) {
  std::ranges::sort(taken, {}, &Range::begin);
  int64_t at = 0;
  for (const Range& range : taken) {
    if (range.begin - at >= bytes) break;
    at = std::max(at, range.end);
  }
  return at;
}

// Tensors of a redo are placed around those that the step has at that moment.
std::vector<int64_t> offsets_of_redo(const ArenaRecord& record, const ProgramPlan& step) {
  const std::vector<Lifetime>& own = record.programs[static_cast<size_t>(Program::Redo)];
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<Range> taken;
    for (const int32_t place : record.alive_at_redo[i]) {
      const auto at = static_cast<size_t>(place);
      taken.push_back({step.offsets[at], step.offsets[at] + step.lifetimes[at].bytes});
    }
    for (size_t other = 0; other < i; ++other)
      if (own[other].end > own[i].begin)
        taken.push_back({offsets[other], offsets[other] + own[other].bytes});
    offsets.push_back(first_fit(std::move(taken), own[i].bytes));
  }
  return offsets;
}

}  // namespace

ArenaPlan plan_arena(const ArenaRecord& record) {
  ArenaPlan plan;
  plan.resident = record.resident;
  int64_t high_water = 0, peak = 0;
  for (const Program program : {Program::Step, Program::Evaluation}) {
    ProgramPlan& own = plan[program];
    own.lifetimes = record.programs[static_cast<size_t>(program)];
    AddressPlan addresses = plan_addresses(own.lifetimes);
    own.offsets = std::move(addresses.offsets);
    high_water = std::max(high_water, addresses.high_water);
    peak = std::max(peak, peak_bytes(own.lifetimes));
  }
  ProgramPlan& redo = plan[Program::Redo];
  redo.lifetimes = record.programs[static_cast<size_t>(Program::Redo)];
  redo.offsets = offsets_of_redo(record, plan[Program::Step]);
  for (size_t i = 0; i < redo.offsets.size(); ++i)
    high_water = std::max(high_water, redo.offsets[i] + redo.lifetimes[i].bytes);
  plan.reserved = plan.resident + high_water;
  plan.peak = plan.resident + peak;
  return plan;
}

}  // namespace sextant

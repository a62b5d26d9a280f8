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

// A program with left out cycles may be written out and planned like any other up to this many
// tensors, where slots of equal size do not pack well.
constexpr int64_t kMostWrittenOut = 1 << 16;

std::vector<Lifetime> written_out(const ProgramPlan& plan) {
  std::vector<Lifetime> out;
  for (int64_t i = 0; i < plan.size(); ++i) out.push_back(plan.lifetime(i));
  return out;
}

// Finds the offsets of a program. Returns its high-water mark, or none: see plan_arena.
std::optional<int64_t> plan_program(ProgramPlan& plan, int64_t work) {
  AddressPlan addresses;
  if (plan.cycle.left_out == 0) {
    addresses = plan_addresses(plan.lifetimes, work);
  } else {
    if (!measure(plan.lifetimes, plan.cycle)) return {};
    plan.pools = SlotPools(plan.lifetimes, plan.cycle, work);
    addresses = plan_addresses(plan.lifetimes, plan.cycle, plan.pools, work);
    const int64_t peak = peak_bytes(plan.lifetimes);
    if (addresses.high_water - peak > peak / 100 * 3 && plan.size() <= kMostWrittenOut) {
      std::vector<Lifetime> whole = written_out(plan);
      AddressPlan other = plan_addresses(whole, work);
      if (other.high_water < addresses.high_water) {
        addresses = std::move(other);
        plan = {std::move(whole), {}, {}, {}};
      }
    }
  }
  plan.offsets = std::move(addresses.offsets);
  return addresses.high_water;
}

}  // namespace

int64_t ProgramPlan::offset(int64_t tensor) const {
  const int64_t after = tensor - cycle.end, more = int64_t{cycle.left_out} * cycle.tensors;
  if (cycle.left_out == 0 || after < 0) return offsets[static_cast<size_t>(tensor)];
  if (after >= more) return offsets[static_cast<size_t>(tensor - more)];
  return pools.offset(static_cast<size_t>(after % cycle.tensors), after / cycle.tensors);
}

std::optional<ArenaPlan> plan_arena(ArenaRecord record, int64_t work) {
  ArenaPlan plan;
  plan.resident = record.resident;
  int64_t high_water = 0, peak = 0;
  for (const Program program : {Program::Step, Program::Evaluation}) {
    ProgramPlan& own = plan[program];
    own.lifetimes = std::move(record.programs[static_cast<size_t>(program)]);
    own.cycle = record.cycles[static_cast<size_t>(program)];
    const std::optional<int64_t> own_high_water = plan_program(own, work);
    if (!own_high_water) return {};
    high_water = std::max(high_water, *own_high_water);
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

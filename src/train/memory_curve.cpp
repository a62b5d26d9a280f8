#include "train/memory_curve.h"

#include <algorithm>
#include <numeric>

#include "train/on_all_cores.h"
#include "train/phantom.h"
#include "train/rehearsal.h"
#include "train/step_time.h"
#include "train/typical_rates.h"

namespace sextant {
namespace {

// Times of the operations of a step, as fractions of it.
struct StepTimes {
  std::vector<OpTimes> ops;
  double begin = 0, seconds = 1;
  double of(double time) const { return std::clamp((time - begin) / seconds, 0.0, 1.0); }
};

// Of the rank itself or of one at the same place in the pipeline, which does the same. Without any,
// as if all operations took equally long.
StepTimes times_for(const Config& config, const StepTime& step, int rank, size_t operations) {
  const MeshShape shape = mesh_shape(config.parallel);
  const auto stage = [&](int of) {
    return coordinates_of(shape, of)[static_cast<size_t>(Axis::Pp)];
  };
  const TimedRank* found = nullptr;
  for (const TimedRank& timed : step.ranks)
    if (timed.times.size() == operations && stage(timed.rank) == stage(rank) &&
        (found == nullptr || timed.rank == rank))
      found = &timed;
  if (found != nullptr) return {found->times, step.begin, step.seconds};
  StepTimes even;
  for (size_t i = 0; i < operations; ++i)
    even.ops.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
  return even;
}

// The pass of an operation; what follows the last layer is the update.
StepPhase phase_of(const TraceOp& op) {
  if (op.scope.layer < 0) return {0, 0, "update", -1};
  return {0, 0, op.scope.pass, op.scope.micro};
}

// Joins a phase with the one before unless it is another one or the rank waited between them.
void add_phase(std::vector<StepPhase>& phases, const StepPhase& phase) {
  constexpr double kWait = 0.002;  // of a step
  if (!phases.empty()) {
    StepPhase& last = phases.back();
    if (last.pass == phase.pass && last.micro == phase.micro && phase.begin - last.end < kWait) {
      last.end = phase.end;
      return;
    }
  }
  phases.push_back(phase);
}

// Operations between layers belong to no pass; those after the last layer are the update.
std::vector<StepPhase> phases_of(const StepTraces& steps, const StepTimes& times) {
  size_t update = steps.second;
  for (size_t i = steps.second; i < steps.end; ++i)
    if (steps.trace.ops[i].scope.layer >= 0) update = i;
  std::vector<StepPhase> out;
  for (size_t i = steps.second; i < steps.end; ++i) {
    const TraceOp& op = steps.trace.ops[i];
    const bool is_between = op.scope.layer < 0 && i < update;
    if (op.lane != Trace::kCompute || is_between) continue;
    StepPhase phase = phase_of(op);
    phase.begin = times.of(times.ops[i].start);
    phase.end = times.of(times.ops[i].end);
    add_phase(out, phase);
  }
  return out;
}

void apply(CategoryBytes& bytes, const TraceMemory& event) {
  const auto at = [&](Category category) -> int64_t& {
    return bytes[static_cast<size_t>(category)];
  };
  switch (event.kind) {
    case TraceMemory::Kind::Take:
      at(event.category) += event.bytes;
      break;
    case TraceMemory::Kind::Free:
      at(event.category) -= event.bytes;
      break;
    case TraceMemory::Kind::Move:
      at(event.from) -= event.bytes;
      at(event.category) += event.bytes;
      break;
  }
}

std::vector<MemoryAt> points_of(const StepTraces& steps, const StepTimes& times,
                                const CategoryBytes& resident) {
  std::vector<MemoryAt> out;
  MemoryAt now{0, resident};
  size_t op = 0;
  double done = 0;  // compute operations that the rank has issued so far have ended by then
  for (const TraceMemory& event : steps.trace.memory) {
    if (event.at > steps.end) break;
    for (; op < event.at; ++op)
      if (steps.trace.ops[op].lane == Trace::kCompute) done = std::max(done, times.ops[op].end);
    if (event.at >= steps.second && out.empty()) out.push_back({0, now.bytes});
    apply(now.bytes, event);
    now.time = times.of(done);
    if (event.at >= steps.second) out.push_back(now);
  }
  if (out.empty()) out.push_back({0, now.bytes});
  out.push_back({1, out.back().bytes});
  return out;
}

}  // namespace

int64_t MemoryAt::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

std::vector<MemoryCurve> memory_curves(const Config& config, const Preflight& flight) {
  const Rates rates = typical_rates(config);
  const StepTime step = time_step(config, flight, [&](const Trace& trace, const TraceOp& op) {
    return seconds_of(rates, trace, op);
  });
  std::vector<MemoryCurve> out(static_cast<size_t>(flight.kinds.size()));
  for (int rank = 0; rank < world_size(config.parallel); ++rank)
    out[static_cast<size_t>(flight.kinds.kind_of(rank))].ranks.push_back(rank);
  Budget budget = trace_budget(config, flight.kinds.size());
  on_all_cores(flight.kinds.size(), [&](int kind) {
    MemoryCurve& curve = out[static_cast<size_t>(kind)];
    const int rank = flight.kinds.representative(kind);
    const auto at = static_cast<size_t>(rank);
    const StepTraces steps = trace_steps(config, flight, rank, flight.plans[at], &budget);
    const StepTimes times = times_for(config, step, rank, steps.trace.ops.size());
    curve.memory = flight.memory[at];
    curve.phases = phases_of(steps, times);
    curve.points = points_of(steps, times, flight.resident[at].categories());
  });
  return out;
}

}  // namespace sextant

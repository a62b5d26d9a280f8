#include "train/step_time.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "program/pipeline.h"
#include "train/on_all_cores.h"
#include "train/phantom.h"
#include "train/rehearsal.h"

namespace sextant {
namespace {

struct RankClasses {
  std::vector<int> ranks;      // first rank of each class
  std::vector<int> counts;     // ranks per class
  std::vector<int> stand_ins;  // class, by global rank
};

int& at(Coordinates& coordinates, Axis axis) {
  return coordinates[static_cast<size_t>(axis)];
}

// By rank along shard: the first shard whose ranks have the same kinds, stage by stage.
std::vector<int> first_alike(const MeshShape& shape, const RankKinds& kinds) {
  std::map<std::vector<int>, int> known;
  std::vector<int> out;
  for (int shard = 0; shard < shape.degree(Axis::Shard); ++shard) {
    std::vector<int> signature;
    for (int stage = 0; stage < shape.degree(Axis::Pp); ++stage) {
      Coordinates place{};
      at(place, Axis::Shard) = shard;
      at(place, Axis::Pp) = stage;
      signature.push_back(kinds.kind_of(rank_at(shape, place)));
    }
    out.push_back(known.emplace(signature, shard).first->second);
  }
  return out;
}

RankClasses every_rank(const MeshShape& shape) {
  RankClasses out;
  for (int rank = 0; rank < shape.size(); ++rank) {
    out.ranks.push_back(rank);
    out.counts.push_back(1);
    out.stand_ins.push_back(rank);
  }
  return out;
}

// Groups of experts run across shards: where shards differ, no rank stands in for another.
RankClasses classify(const MeshShape& shape, const RankKinds& kinds) {
  if (shape.expert_size() > 1 && kinds.size() > shape.degree(Axis::Pp)) return every_rank(shape);
  const std::vector<int> shards = first_alike(shape, kinds);
  RankClasses out;
  std::map<int, int> classes;  // by first rank
  for (int rank = 0; rank < shape.size(); ++rank) {
    Coordinates own = coordinates_of(shape, rank), first{};
    at(first, Axis::Shard) = shards[static_cast<size_t>(at(own, Axis::Shard))];
    at(first, Axis::Pp) = at(own, Axis::Pp);
    const auto [found, is_new] = classes.emplace(rank_at(shape, first), out.ranks.size());
    if (is_new) {
      out.ranks.push_back(found->first);
      out.counts.push_back(0);
    }
    ++out.counts[static_cast<size_t>(found->second)];
    out.stand_ins.push_back(found->second);
  }
  return out;
}

double end_of(const std::vector<OpTimes>& times, size_t first, size_t last) {
  double end = 0;
  for (size_t i = first; i < last; ++i) end = std::max(end, times[i].end);
  return end;
}

// What a step is timed with.
struct Timing {
  const SecondsOf& seconds_of;
  const SharedCores& cores;
};

// All micro-batches. A flight without memory plans is timed at any addresses.
StepTime time_whole(const Config& config, const Preflight& flight, const RankClasses& classes,
                    const Timing& timing, Budget& budget) {
  const size_t count = classes.ranks.size();
  TracedRanks traced{std::vector<RankTrace>(count), classes.stand_ins, timing.cores};
  StepTime out;
  out.ranks.resize(count);
  on_all_cores(static_cast<int>(count), [&](int index) {
    const auto i = static_cast<size_t>(index);
    const int rank = classes.ranks[i];
    const auto plan = flight.plans.empty() ? nullptr : flight.plans[static_cast<size_t>(rank)];
    std::vector<double> seconds;
    StepTraces steps = trace_steps(config, flight, rank, plan, &budget,
                                   [&](const Trace& trace, const TraceOp& op) {
                                     seconds.push_back(timing.seconds_of(trace, op));
                                   });
    if (config.run.device == RunDevice::Cpu) queue_copies_with_compute(steps.trace);
    out.ranks[i].first = steps.second;
    out.ranks[i].last = steps.end;
    traced.ranks[i] = {rank, std::move(steps.trace), std::move(seconds)};
  });
  std::vector<std::vector<OpTimes>> times = time_traces(traced);
  double end = 0;
  for (size_t i = 0; i < count; ++i) {
    TimedRank& rank = out.ranks[i];
    out.begin = std::max(out.begin, end_of(times[i], 0, rank.first));
    end = std::max(end, end_of(times[i], rank.first, rank.last));
    rank.rank = classes.ranks[i];
    rank.count = classes.counts[i];
    rank.use = time_use(traced.ranks[i].trace, times[i], rank.first, rank.last);
    rank.trace = std::move(traced.ranks[i]);
    rank.times = std::move(times[i]);
  }
  out.seconds = end - out.begin;
  return out;
}

// The same with `micros` micro-batches. Its traces are dropped.
StepTime time_shorter(Config config, const Preflight& flight, int64_t micros,
                      const RankClasses& classes, const Timing& timing, Budget& budget) {
  config.batch.accumulation = micros;
  config.batch.global = micros * config.batch.micro * data_ranks(config.parallel);
  Preflight shorter;
  shorter.blueprint = flight.blueprint;
  shorter.pipeline = make_pipeline(flight.blueprint, config.parallel, static_cast<int>(micros));
  shorter.pipeline.keeps = flight.pipeline.keeps;
  shorter.kinds = flight.kinds;
  shorter.threads = flight.threads;
  shorter.expert_capacity = flight.expert_capacity;
  StepTime out = time_whole(config, shorter, classes, timing, budget);
  for (TimedRank& rank : out.ranks) rank = {rank.rank, rank.count, std::move(rank.use), {}, {}};
  return out;
}

// What `more` adds to `few`, `times` times more.
StepTime extrapolate(const StepTime& few, const StepTime& more, double times) {
  StepTime out = more;
  const auto extend = [&](double& value, double before) { value += times * (value - before); };
  extend(out.seconds, few.seconds);
  extend(out.begin, few.begin);
  for (size_t i = 0; i < out.ranks.size(); ++i) {
    TimeUse& use = out.ranks[i].use;
    const TimeUse& before = few.ranks[i].use;
    extend(use.end, before.end);
    extend(use.compute, before.compute);
    extend(use.exposed, before.exposed);
    extend(use.waiting, before.waiting);
    for (size_t lane = 0; lane < use.busy.size(); ++lane) extend(use.busy[lane], before.busy[lane]);
  }
  return out;
}

// Steps that are short enough to be traced at once, under the usual limit.
bool is_short(const Config& config) {
  constexpr int64_t kShortPasses = 2048;
  return config.batch.accumulation * config.model.layers <= kShortPasses;
}

}  // namespace

void queue_copies_with_compute(Trace& trace) {
  for (TraceOp& op : trace.ops)
    if (trace.lane_of(op).kind == TraceLane::Kind::Compute) op.lane = Trace::kCompute;
}

StepTime time_step(const Config& config, const Preflight& flight, const SecondsOf& seconds_of,
                   const SharedCores& cores, int64_t most_bytes) {
  const RankClasses classes = classify(mesh_shape(config.parallel), flight.kinds);
  const Timing timing{seconds_of, cores};
  const auto budget_of = [&] {
    return trace_budget(config, static_cast<int>(classes.ranks.size()), most_bytes);
  };
  // A number of micro-batches that suits a schedule suits it with a pipeline's worth less too.
  // The pipeline is full then, and slow links are as far behind as they get.
  constexpr int64_t kPipelines = 2, kFull = 16;
  const int64_t micros = config.batch.accumulation, worth = std::max(2, config.parallel.pp);
  const int64_t few = std::max(kPipelines, (kFull + worth - 1) / worth) * worth + micros % worth;
  if ((most_bytes == 0 && is_short(config)) || micros <= few + worth ||
      config.parallel.schedule.ends_with(".csv")) {
    Budget budget = budget_of();
    return time_whole(config, flight, classes, timing, budget);
  }
  Budget probe = budget_of();
  const int64_t most = probe.left();
  const StepTime first = time_shorter(config, flight, few, classes, timing, probe);
  Budget budget = budget_of();
  if ((most - probe.left()) / few * micros <= most)
    return time_whole(config, flight, classes, timing, budget);
  const StepTime second = time_shorter(config, flight, few + worth, classes, timing, budget);
  StepTime out = extrapolate(
      first, second, static_cast<double>(micros - few - worth) / static_cast<double>(worth));
  out.extrapolated_from = {few, few + worth};
  return out;
}

MachineStep time_on_machine(const Config& config, const Preflight& flight, const Machine& machine) {
  const MachineCosts costs(machine, world_size(config.parallel), flight.threads);
  MachineStep out;
  out.time = time_step(
      config, flight,
      [&](const Trace& trace, const TraceOp& op) { return costs.seconds_of(trace, op); },
      costs.cores());
  out.assumed = costs.assumed();
  return out;
}

std::vector<Span> step_spans(const StepTime& step) {
  SXT_CHECK(step.extrapolated_from.empty(), Config,
            "the trace of this step is too large to be written: fewer micro-batches, such as "
            "batch.accumulation = ",
            step.extrapolated_from.back(), ", need less");
  std::vector<Span> spans;
  for (const TimedRank& rank : step.ranks)
    for (Span& span : timed_spans(rank.trace, rank.times, rank.first, rank.last, step.begin))
      spans.push_back(std::move(span));
  return spans;
}

}  // namespace sextant

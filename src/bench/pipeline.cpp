#include "bench/pipeline.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/span_log.h"
#include "data/open_data.h"
#include "sim/measured.h"
#include "train/preflight.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

template <class F>
double median_of(const std::vector<Comparison>& steps, F&& f) {
  std::vector<double> values;
  for (const Comparison& step : steps) values.push_back(f(step));
  return median(std::move(values));
}

double work_of(const StageCost& cost) {
  return cost.forward_time + cost.input_grad_time + cost.weight_grad_time;
}

}  // namespace

double PipelineRow::measured_s() const {
  return median_of(steps, [](const Comparison& step) { return step.measured.makespan; });
}

double PipelineRow::simulated_s() const {
  return median_of(steps, [](const Comparison& step) { return step.simulated.makespan; });
}

double PipelineRow::ratio() const {
  return median_of(steps, [](const Comparison& step) {
    return step.measured.makespan / step.simulated.makespan;
  });
}

double PipelineRow::measured_bubble() const {
  return median_of(steps, [](const Comparison& step) { return step.measured.bubble_fraction; });
}

double PipelineRow::simulated_bubble() const {
  return median_of(steps, [](const Comparison& step) { return step.simulated.bubble_fraction; });
}

double PipelineRow::bubble_points() const {
  return median_of(steps, [](const Comparison& step) {
    return 100 * (step.measured.bubble_fraction - step.simulated.bubble_fraction);
  });
}

double PipelineRow::latency_s() const {
  return median_of(steps, [](const Comparison& step) { return step.times.costs.latency; });
}

std::pair<double, double> PipelineRow::stage_work() const {
  std::vector<double> work;
  for (size_t stage = 0; stage < steps.front().times.costs.stages.size(); ++stage)
    work.push_back(median_of(
        steps, [&](const Comparison& step) { return work_of(step.times.costs.stages[stage]); }));
  const double mean =
      std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(work.size());
  return {std::ranges::min(work) / mean, std::ranges::max(work) / mean};
}

bool PipelineRow::has_other_order() const {
  return std::ranges::any_of(steps, [](const Comparison& step) { return step.order.has_value(); });
}

PipelineRow bench_pipeline(const Config& config, int steps, Storage& storage, const Clock& clock,
                           Log& log) {
  SXT_CHECK(steps > 0, Usage, "bench pipeline: ", steps, " steps, must be at least 1");
  SXT_CHECK(config.run.transport == Transport::Threads, Config,
            "bench pipeline: ranks are threads, run.transport = threads");
  const Preflight flight = preflight(config, 0);
  const Loader data = open_data(config, storage, log);
  SpanLog spans;
  run_world(config, clock, &spans, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    for (int step = 0; step < steps + 1; ++step) {
      world.control().barrier();
      trainer.train_step();
    }
  });
  const Schedule& schedule = flight.pipeline.schedule;
  const PipelineRanks ranks{0, world_size(config.parallel) / config.parallel.pp};
  const std::vector<Timeline> timelines =
      measured_steps(spans.take(), schedule, ranks, schedule.name);
  PipelineRow row{schedule.name, {}};
  for (size_t step = 1; step < timelines.size(); ++step)
    row.steps.push_back(compare(schedule, std::span(timelines).subspan(step, 1)));
  return row;
}

bool is_same_order(std::span<const PipelineRow> rows, double tie) {
  for (const PipelineRow& slow : rows)
    for (const PipelineRow& fast : rows)
      if (slow.simulated_s() > fast.simulated_s() * (1 + tie) &&
          slow.measured_s() <= fast.measured_s())
        return false;
  return true;
}

}  // namespace sextant

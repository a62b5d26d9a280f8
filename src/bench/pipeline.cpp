#include "bench/pipeline.h"

#include "base/error.h"
#include "base/trace.h"
#include "infer/open_data.h"
#include "sim/measured.h"
#include "train/preflight.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {

PipelineRow bench_pipeline(const Config& config, int steps, Storage& storage, const Clock& clock,
                           Log& log) {
  SXT_CHECK(steps > 0, Usage, "bench pipeline: ", steps, " steps, must be at least 1");
  SXT_CHECK(config.run.transport == Transport::Threads, Config,
            "bench pipeline: ranks are threads, run.transport = threads");
  const Preflight flight = preflight(config, 0);
  const Loader data = open_data(config, storage, log);
  Trace trace;
  run_world(config, clock, &trace, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    for (int step = 0; step < steps + 1; ++step) {
      world.barrier();
      trainer.train_step();
    }
  });
  const Schedule& schedule = flight.pipeline.schedule;
  const PipelineRanks ranks{0, world_size(config.parallel) / config.parallel.pp};
  const std::vector<Timeline> timelines =
      measured_steps(trace.take(), schedule, ranks, schedule.name);
  return {schedule.name, compare(schedule, timelines)};
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

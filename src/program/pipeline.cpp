#include "program/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/storage.h"
#include "program/stages.h"
#include "schedule/add_comms.h"
#include "schedule/dependencies.h"
#include "schedule/make_schedule.h"
#include "schedule/schedule_csv.h"
#include "schedule/validate.h"

namespace sextant {
namespace {

Schedule read_schedule(const ParallelConfig& parallel, int micros) {
  DiskStorage disk;
  Schedule schedule = read_schedule_csv(read_text(disk, parallel.schedule), parallel.schedule);
  schedule.name = parallel.schedule;  // for messages: the user knows the file
  validate(schedule);
  SXT_CHECK(schedule.size() == parallel.pp, Config, parallel.schedule, " is for ", schedule.size(),
            " ranks, parallel.pp = ", parallel.pp, " needs as many");
  SXT_CHECK(schedule.micros == micros, Config, parallel.schedule, " is for ", schedule.micros,
            " micro-batches, a data rank has ", micros, " a step (batch.accumulation)");
  for (std::vector<Action>& actions : schedule.ranks)
    std::erase_if(actions, [](const Action& action) { return !is_compute(action.kind); });
  return schedule;
}

}  // namespace

Pipeline make_pipeline(const Blueprint& blueprint, const ParallelConfig& parallel, int micros) {
  if (parallel.pp == 1) return serial_pipeline(blueprint, micros);
  Pipeline pipeline;
  if (parallel.schedule.ends_with(".csv")) {
    Schedule schedule = read_schedule(parallel, micros);
    pipeline.stages = split_stages(blueprint, schedule.stages, parallel.split);
    pipeline.schedule = add_comms(schedule);
    return pipeline;
  }
  ScheduleRequest request;
  request.name = parallel.schedule;
  request.ranks = parallel.pp;
  request.micros = micros;
  request.chunks = parallel.chunks;
  const int stages = stage_count(request);
  pipeline.stages = split_stages(blueprint, stages, parallel.split);
  request.costs.clear();
  for (const Range& stage : pipeline.stages) request.costs.push_back(stage_cost(blueprint, stage));
  if (request.name.starts_with("interleaved"))
    request.micro_group = smallest_micro_group(request.ranks, request.micros);
  pipeline.schedule = add_comms(make_schedule(request));
  return pipeline;
}

// Micros go through a rank's chunks in groups, as in interleaved schedules, so at most one group
// waits for the next chunk.
Pipeline forward_only(const Pipeline& pipeline, int micros) {
  const Schedule& like = pipeline.schedule;
  Schedule out = like;
  out.micros = micros;
  for (std::vector<Action>& actions : out.ranks) actions.clear();
  const int per_chunk = like.placement == Placement::Dual ? like.stages : like.size();
  for (int first = 0; first < micros; first += like.size())
    for (int chunk = 0; chunk < like.chunks(); ++chunk)
      for (int micro = first; micro < std::min(first + like.size(), micros); ++micro)
        for (int i = 0; i < per_chunk; ++i) {
          const int stage = like.placement == Placement::Dual ? i : chunk * per_chunk + i;
          if (out.chunk_of(stage, micro) == chunk)
            out.ranks[static_cast<size_t>(out.rank_of(stage, micro))].push_back(
                {Kind::F, stage, micro});
        }
  return {add_comms(out), pipeline.stages, pipeline.keeps};
}

}  // namespace sextant

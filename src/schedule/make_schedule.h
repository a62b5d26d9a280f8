#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

struct ScheduleRequest {
  std::string name;  // one of schedule_names()
  int ranks = 1;     // of the pipeline
  int micros = 1;    // micro-batches a step
  int chunks = 1;    // stages a rank, where the schedule leaves a choice; V-shaped ones have 2
  int group = 0;     // micros that pass a chunk in turn (interleaved ones); 0: as many as ranks
  // For schedules that are made for given times: one for all stages, or one per stage; and the
  // delay of a message between ranks.
  std::vector<StageCost> costs = {StageCost{}};
  double comm = 0;
  // What a rank may hold, in the unit of StageCost::held. 0: zb-auto and zb-v take what 2 * ranks
  // forwards hold, no other has a limit.
  double memory_limit = 0;
};

// A valid schedule of compute actions. Error(Config) in one line for what cannot be, with what
// would work.
//   zb-v      the hand-made order when all times are equal, messages take none and no limit is
//             given; otherwise the one that is searched for the given times
//   zb-auto   searched for the given times and limit
// All others have one order for all times.
Schedule make_schedule(const ScheduleRequest& request);

// Stages that it would have in all. Error(Config) as above.
int stage_count(const ScheduleRequest& request);
// The least group that interleaved schedules can take micros in; 0 when there are fewer than ranks.
int smallest_group(int ranks, int micros);

struct ScheduleInfo {
  std::string_view name;
  std::string_view summary;  // one line
  Placement placement;
  bool splits_backward;  // uses I and W
};
std::vector<ScheduleInfo> schedule_table();
std::vector<std::string> schedule_names();

}  // namespace sextant

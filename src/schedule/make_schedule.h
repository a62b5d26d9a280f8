#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

struct ScheduleRequest {
  std::string name;     // one of schedule_names()
  int ranks = 1;        // pipeline ranks
  int micros = 1;       // micro-batches per step
  int chunks = 1;       // stages per rank, where the schedule has a choice; V-shaped ones have 2
  int micro_group = 0;  // micros per chunk at a time (interleaved schedules); 0: number of ranks
  // For searched schedules: one cost for all stages or one per stage, and the latency of a message
  // between ranks.
  std::vector<StageCost> costs = {StageCost{}};
  double message_time = 0;
  // Memory limit per rank, in the unit of StageCost::activation_memory. 0: zb-auto and zb-v take
  // the memory of 2
  // * ranks forwards, the others have no limit.
  double memory_limit = 0;
};

// A valid schedule of compute actions. Error(Config) for an impossible request; the message says
// what would work.
//   zb-v      the closed-form order when all times are equal, messages take no time and no limit is
//             given; otherwise searched for the given times
//   zb-auto   searched for the given times and limit
// All others ignore the times; with a limit, Error(Config) if the schedule exceeds it.
Schedule make_schedule(const ScheduleRequest& request);

// Total number of stages. Error(Config) as above.
int stage_count(const ScheduleRequest& request);
// The smallest valid group of interleaved schedules; 0 when there are fewer micros than ranks.
int smallest_micro_group(int ranks, int micros);

struct ScheduleInfo {
  std::string_view name;
  std::string_view summary;  // one line
  Placement placement;
  bool splits_backward;  // uses I and W
};
std::vector<ScheduleInfo> schedule_table();
std::vector<std::string> schedule_names();

}  // namespace sextant

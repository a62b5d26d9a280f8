#pragma once
#include "plan/step_time.h"
#include "schedule/schedule.h"
#include "sim/flow.h"

namespace sextant {

// Channels of a rank. Messages have one channel for each neighbour in the pipeline and kind; the
// last four are those of the neighbours that send here.
enum FlowSlot {
  kSlotTp,
  kSlotCp,
  kSlotEp,
  kSlotShard,
  kSlotCopies,
  kSlotExpertShard,
  kSlotExpertCopies,
  kSlotNextF,
  kSlotNextB,
  kSlotPrevF,
  kSlotPrevB,
  kSlotFromPrevF,
  kSlotFromPrevB,
  kSlotFromNextF,
  kSlotFromNextB,
  kFlowSlots
};

// What a pipeline rank does in a step. Bytes of a transfer are those that make it take its closed
// form alone: `rates[slot]`, bytes per second alone, of the channel in each slot.
struct FlowProgramRequest {
  const Case& asked;
  const Schedule& schedule;  // with sends and receives
  const std::vector<RankTime>& stages;
  const StateTraffic& traffic;
  double message = 0, optimizer = 0;  // seconds
};
FlowProgram flow_program(const FlowProgramRequest& request, int pipeline_rank,
                         const std::vector<double>& rates);

}  // namespace sextant

#pragma once
#include <vector>

#include "plan/step_time.h"
#include "schedule/schedule.h"

namespace sextant {

// The schedule of a case, without messages; forward and backward of each micro-batch in turn
// without a pipeline. Error(Config) where there is none for its numbers.
Schedule compute_schedule(const Case& asked, const RankTimes& ranks);
// The same with sends and receives.
Schedule pipeline_schedule(const Case& asked, const RankTimes& ranks);

// Seconds of each stage: a rank's time shared out over its chunks. Where a rank holds stages of
// both ends, its time is that of a middle rank, and the ends bear what they have beyond it.
std::vector<RankTime> stage_times(const Layout& layout, const RankTimes& ranks,
                                  const Schedule& schedule);

}  // namespace sextant

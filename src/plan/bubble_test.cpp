#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/memory.h"
#include "plan/pipeline_times.h"
#include "sim/simulate.h"

namespace sextant {
namespace {

// Seconds of the simulated schedule; 0 where it does not exist for so many micro-batches.
double simulated(const Case& asked, const RankTimes& ranks) {
  try {
    const Schedule schedule = compute_schedule(asked, ranks);
    Costs costs;
    costs.stages.clear();
    for (const RankTime& stage : stage_times(asked.layout, ranks, schedule))
      costs.stages.push_back({.forward_time = stage.forward,
                              .input_grad_time = stage.input,
                              .weight_grad_time = stage.weight});
    return measure(simulate(schedule, costs)).makespan;
  } catch (const Error&) {
    return 0;
  }
}

// A closed form that is too short lets layouts win the search that lose the simulation. Dense
// layers, longer input gradients, and full recomputation.
TEST(Bubble, ClosedFormsAreNotShorterThanTheSimulatedSchedule) {
  int compared = 0;
  for (const auto& [input, weight] : {std::pair{12, 8}, std::pair{11, 9}, std::pair{22, 8}})
    for (const int p : {2, 3, 4, 6, 8, 12, 16})
      for (const int m : {1, 2, 3, p / 2, p - 1, p, p + 1, 2 * p - 1, 2 * p, 3 * p, 4 * p})
        for (size_t kind = 0; kind < std::size(kSchedules); ++kind) {
          Case asked;
          asked.layout.pp = p;
          asked.layout.schedule = static_cast<ScheduleKind>(kind);
          asked.layout.chunks = takes_chunks(asked.layout.schedule) ? 2 : 1;
          asked.global_batch = std::max(m, 1);
          RankTime time;
          time.forward = 10;
          time.input = input;
          time.weight = weight;
          RankTimes ranks;
          ranks.first = ranks.middle = ranks.last = time;
          const double exact = simulated(asked, ranks);
          if (exact == 0) continue;
          ++compared;
          const auto micros = static_cast<double>(asked.global_batch);
          const double closed = micros * time.total() + bubble_time(asked.layout, micros, ranks);
          EXPECT_GE(closed, 0.94 * exact)
              << kSchedules[kind] << " p " << p << " m " << m << " input " << time.input;
          // Of two ranks v-half and v-min have more room than their slots.
          EXPECT_LE(closed, (p == 2 ? 1.25 : 1.12) * exact)
              << kSchedules[kind] << " p " << p << " m " << m << " input " << time.input;
        }
  EXPECT_GT(compared, 1000);
}

// 61 layers have no equal stages on two ranks, and none may be lost.
TEST(Bubble, StagesHoldAllLayers) {
  for (const int64_t layers : {7, 61, 62, 63, 126})
    for (int64_t pp = 1; pp <= 7; ++pp) {
      const StageLayers one = stage_layers(layers, pp);
      const double p = static_cast<double>(pp);
      const double all = pp == 1 ? one.last : one.first + one.last + (p - 2) * one.middle;
      EXPECT_GE(all, static_cast<double>(layers)) << layers << " over " << pp;
    }
}

}  // namespace
}  // namespace sextant

#pragma once
#include "plan/case.h"
#include "plan/constants.h"
#include "plan/layer_time.h"

namespace sextant {

// Seconds of one step, by what they go to; the terms add up to total().
struct StepTerms {
  double gemm = 0, attention = 0, elements = 0, launches = 0, recompute = 0;
  double tp = 0, cp = 0, ep = 0;  // exposed communication
  double pipeline = 0;            // bubble and uneven stages
  double messages = 0;            // of the pipeline
  double data = 0;                // exposed reduction of gradients and gathering of weights
  double optimizer = 0;
  double offload = 0;  // exposed copies to and from the host
  double total() const {
    return gemm + attention + elements + launches + recompute + tp + cp + ep + pipeline + messages +
           data + optimizer + offload;
  }
};

// Closed form.
StepTerms step_time(const Case& asked, const Constants& constants);
// The same with parts that were computed before.
StepTerms step_time(const Case& asked, const Constants& constants, const LayerTimes& layers,
                    const Parameters& counts);

// Seconds of a pipeline rank for one micro-batch, communication of its layers included.
struct RankTime {
  double forward = 0, input = 0, weight = 0;
  // Of which are exposed communication of an axis.
  struct Exposed {
    double forward = 0, backward = 0;
  };
  Exposed tp, cp, ep;
  double total() const { return forward + input + weight; }
  void add(const LayerTime& time, double times);
};
struct RankTimes {
  RankTime first, middle, last;
  double message = 0;  // seconds of one message between neighbours
};
RankTimes rank_times(const Case& asked, const Constants& constants);

// Closed form of the time that ranks of a pipeline wait, beyond the work of the slowest: with few
// micro-batches for the first and the last of them, else for what the schedule leaves open.
double bubble_time(const Layout& layout, double micros, const RankTimes& ranks);

// One reduction of the gradients of a middle rank and one gathering of its weights, in seconds of a
// group alone, in as many collectives as they take: over `sharded` ranks `stride` apart, then
// between the `copies` of each shard.
struct StateTraffic {
  struct Group {
    int64_t sharded = 1, copies = 1, stride = 1;
    double reduce = 0, across = 0, gather = 0;
  };
  Group dense, experts;
  double reduce() const { return dense.reduce + dense.across + experts.reduce + experts.across; }
  double gather() const { return dense.gather + experts.gather; }
};
StateTraffic state_traffic(const Case& asked, const Constants& constants);

// The same with `pipeline` and `messages` read off the simulated schedule, uneven stages included.
// Schedules that do not exist for the case, or have more than `most` actions, keep the closed form.
StepTerms simulated_step_time(const Case& asked, const Constants& constants, int64_t most);

}  // namespace sextant

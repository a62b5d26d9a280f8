#pragma once
#include <span>
#include <vector>

#include "program/groups.h"
#include "program/rank_program.h"

namespace sextant {

// What happens to a parameter group before and after a layer's pass. `ShardedParams` does it, the
// memory prediction counts it.
//   AwaitWeights   wait for the all-gather of updated weights (zero 0 to 2)
//   GatherWeights  allocate the full weights and start their all-gather (zero 3)
//   BindWeights    wait for that; they stay while consecutive uses need the group: a window
//   FreeWeights    free the full weights
//   OpenBucket     allocate a gradient bucket for the group's full gradient
//   ReduceBucket   the gradient made so far is complete: reduce-scatter the bucket (zero 2, 3), or
//                  add it to the gradient; parameters without a contribution yet get zero; the last
//                  one of a step starts the reductions that happen once per step
//   FreeBucket     wait for the reduction of the bucket and free it
enum class StateStep : uint8_t {
  AwaitWeights,
  GatherWeights,
  BindWeights,
  FreeWeights,
  OpenBucket,
  ReduceBucket,
  FreeBucket
};

struct StateEvent {
  StateStep step = StateStep::AwaitWeights;
  // Reduce: whether this is the group's first, or last, contribution in this program. A first one
  // made in place has no event of its own, so the only event need not be the first.
  bool is_first = false, is_last = false;
  int group = 0;
  friend bool operator==(const StateEvent&, const StateEvent&) = default;
};

// State of a rank's parameter groups through a list of layer uses: a step or a forward pass.
// Depends only on what is sharded (`zero` by group, 0 for nothing), not on which ranks hold the
// shards.
//
// The weights of a pass in phases (LayerUse::phase) stay from its first phase to its last one, with
// uses of other layers between.
//
// Zero 3 prefetches one window ahead. Sharded gradients go through buckets: a group's bucket is
// open while some micro-batch has added a part of its gradient but not all, and at most one closed
// bucket is being reduced. A tied embedding adds one complete contribution at a time even when
// nothing is sharded, as it would from two ranks, so that the bits are equal.
class StateProgram {
 public:
  StateProgram() = default;
  StateProgram(const GroupPlan& plan, std::vector<LayerUse> uses, std::vector<int> zero);
  StateProgram(const GroupPlan& plan, std::vector<LayerUse> uses, int zero)  // of all groups
      : StateProgram(plan, std::move(uses), std::vector<int>(plan.groups.size(), zero)) {}

  size_t size() const { return uses_.size(); }
  const LayerUse& use(size_t index) const { return uses_[index]; }
  std::span<const StateEvent> before(size_t index) const { return events(2 * index); }
  std::span<const StateEvent> after(size_t index) const { return events(2 * index + 1); }
  std::span<const StateEvent> at_end() const { return events(2 * uses_.size()); }

 private:
  friend class StateProgramBuilder;
  std::span<const StateEvent> events(size_t list) const {
    return std::span(events_).subspan(marks_[list], marks_[list + 1] - marks_[list]);
  }
  std::vector<LayerUse> uses_;
  std::vector<StateEvent> events_;
  std::vector<size_t> marks_ = {0, 0};  // where the events of each list start
};

}  // namespace sextant

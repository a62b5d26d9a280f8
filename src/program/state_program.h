#pragma once
#include <span>
#include <vector>

#include "program/groups.h"
#include "program/rank_program.h"

namespace sextant {

// What becomes of a group of parameters around the work of a layer. `ShardedParams` does it, the
// memory prediction counts it.
//   Await   its weights, if they were published, have arrived (zero 0 to 2)
//   Gather  its whole weights get memory and are on their way (zero 3)
//   Open    they are there, for as long as layers of the group take turns: a window
//   Close   they are let go
//   Begin   its whole gradient gets memory of its own: a bucket
//   Reduce  what is made of its gradient so far is complete: the bucket is reduced (zero 2, 3), or
//           added to the gradient; what no layer has given to yet becomes zero; the last one of a
//           step starts what is reduced once a step
//   Finish  its bucket has been reduced and is let go
enum class StateStep : uint8_t { Await, Gather, Open, Close, Begin, Reduce, Finish };

struct StateEvent {
  StateStep step = StateStep::Await;
  // Reduce: no contribution was finished before; none comes after, in this program. A first one
  // that is made in place has no event of its own, so the only event need not be the first.
  bool is_first = false, is_last = false;
  int group = 0;
  friend bool operator==(const StateEvent&, const StateEvent&) = default;
};

// The state of a rank through a list of layer uses: a step, or a forward pass. Which ranks take
// part does not matter, only what they divide (`zero`, 0 when nothing).
//
// Zero 3 gathers one window ahead. Gradients that are divided are made in buckets: one is open
// while some micro-batch has given a part of the group's gradient but not all of it, and at most
// one closed bucket is being reduced. A weight that layers apart from each other use gets one
// finished contribution at a time even when nothing is divided, as it would from as many ranks:
// then the bits agree.
class StateProgram {
 public:
  StateProgram() = default;
  StateProgram(const GroupPlan& plan, std::vector<LayerUse> uses, int zero);

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
  std::vector<size_t> marks_ = {0, 0};  // where the events of each list begin
};

}  // namespace sextant

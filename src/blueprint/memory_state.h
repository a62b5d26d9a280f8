#pragma once
#include "blueprint/memory_walk.h"
#include "blueprint/state_program.h"

namespace sextant {

// The training state of one rank through a program: weights, gradients, optimizer, and what of them
// is whole only for a while.
class StateWalk {
 public:
  // Takes what stays through the step.
  StateWalk(MemoryWalk& walk, const GroupPlan& plan, const MemoryQuestion& question);

  void run(std::span<const StateEvent> events);

 private:
  void run(const StateEvent& event);

  MemoryWalk& walk_;
  int zero_;
  std::vector<int64_t> bytes_;    // of each group's whole vector
  std::vector<bool> has_bucket_;  // by group
};

// What the ranks of a shard group divide: the stage, or 0 when there is one rank.
int divided_stage(const MemoryQuestion& question);

}  // namespace sextant

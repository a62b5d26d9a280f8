#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/rank_program.h"
#include "program/state_program.h"

namespace sextant {

// The steady state of a rank's program: consecutive blocks that repeat, each cycle the same as the
// one before with later micro-batches. A rehearsal runs everything before, as many cycles as a
// micro-batch is in flight and some more, and everything after, and counts the cycles that it
// leaves out: it renames the micro-batches in flight and goes on at end().
struct SteadyState {
  size_t leave = 0;            // block: begin of the first cycle that is left out
  size_t blocks = 0;           // per cycle
  int64_t uses = 0;            // layer uses per cycle
  int micros = 0;              // per cycle
  int left_out = 0;            // cycles; 0: the program has no steady state, or a short one
  std::vector<int> in_flight;  // micro-batches in flight at `leave`, ascending

  size_t last() const { return leave - blocks; }  // begin of the last cycle before `leave`
  size_t end() const { return leave + static_cast<size_t>(left_out) * blocks; }
};

// Found in the list itself: no schedule declares it. `state` must be the program of `program.uses`.
SteadyState find_steady_state(const Schedule& schedule, const RankProgram& program,
                              const StateProgram& state);

}  // namespace sextant

#pragma once
#include <cstdint>
#include <vector>

#include "program/rank_part.h"

namespace sextant {

// What runs of a layer: forward, whole backward, input gradient or weight gradient alone, or
// activation recomputation (Keep).
enum class Pass : uint8_t { Forward, Backward, Input, Weight, Recompute };

inline bool gives_gradients(Pass pass) {
  return pass == Pass::Backward || pass == Pass::Input || pass == Pass::Weight;
}

// With expert parallelism a layer with experts waits for rows of tokens twice in a pass: on their
// way to the experts, and on their way back. Where other work can run meanwhile, the pass is cut
// there:
//   Dispatch  all before, up to the start of the dispatch
//   Compute   waits for it, runs the experts, starts the combine
//   Combine   waits for that; all after
enum class Phase : uint8_t { Whole, Dispatch, Compute, Combine };

// One pass of one layer, or a phase of it. `layer` is an index in RankPart::layers.
struct LayerUse {
  Pass pass = Pass::Forward;
  int layer = 0;
  int micro = 0;
  Phase phase = Phase::Whole;
  bool begins() const { return phase == Phase::Whole || phase == Phase::Dispatch; }
  bool ends() const { return phase == Phase::Whole || phase == Phase::Combine; }
  friend bool operator==(const LayerUse&, const LayerUse&) = default;
};

// A rank's actions with their layer uses, in order: the executor runs it, the memory prediction
// reads it.
struct RankProgram {
  // One action, or two joined actions that take turns, so that communication of one overlaps with
  // computation of the other. A turn is one use, or, with expert parallelism, ends where rows of
  // tokens start to travel: then the other action has its turn, and after it they are waited for.
  struct Block {
    Range actions, uses;
  };
  std::vector<Action> actions;
  std::vector<LayerUse> uses;
  std::vector<Block> blocks;
};

RankProgram make_program(const Pipeline& pipeline, const RankPart& part, int rank);

// Sends of a rank in flight per direction: the next send waits for the oldest of them, which then
// frees its memory.
inline constexpr int kSendsUnderWay = 2;

}  // namespace sextant

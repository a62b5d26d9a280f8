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

// One pass of one layer. `layer` is an index in RankPart::layers.
struct LayerUse {
  Pass pass = Pass::Forward;
  int layer = 0;
  int micro = 0;
  // It runs while tokens of the use before it are on their way to the experts. That use begins
  // before this one and ends after it.
  bool is_inside = false;
  friend bool operator==(const LayerUse&, const LayerUse&) = default;
};

// A rank's actions with their layer uses, in order: the executor runs it, the memory prediction
// reads it.
struct RankProgram {
  // One action, or two joined actions whose layers alternate, so that communication of one overlaps
  // with computation of the other. With expert parallelism a use of experts of one action has a use
  // of another layer of the other action inside, where there is one.
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

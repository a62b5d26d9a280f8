#pragma once
#include <cstdint>
#include <vector>

#include "program/rank_part.h"

namespace sextant {

// What is done with a layer: forward, whole backward, or its input or weight gradient alone;
// Recompute makes again what forward did not keep (Keep).
enum class Pass : uint8_t { Forward, Backward, Input, Weight, Recompute };

inline bool gives_gradients(Pass pass) {
  return pass == Pass::Backward || pass == Pass::Input || pass == Pass::Weight;
}

// One layer's turn. `layer` counts in RankPart::layers.
struct LayerUse {
  Pass pass = Pass::Forward;
  int layer = 0;
  int micro = 0;
  friend bool operator==(const LayerUse&, const LayerUse&) = default;
};

// A rank's actions with the layers that they use, in order: what the executor runs and the memory
// prediction walks.
struct RankProgram {
  // One action; or two that are joined, whose layers then take turns, so that what one of them
  // waits for may come while the other computes.
  struct Block {
    Range actions, uses;
  };
  std::vector<Action> actions;
  std::vector<LayerUse> uses;
  std::vector<Block> blocks;
};

RankProgram make_program(const Pipeline& pipeline, const RankPart& part, int rank);

// Sends of a rank in one direction that may be under way at a time: the next one waits for the
// oldest of them, which then lets go of its memory.
inline constexpr int kSendsUnderWay = 2;

}  // namespace sextant

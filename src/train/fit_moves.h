#pragma once
#include <string>
#include <vector>

#include "config/load.h"

namespace sextant {

// What a move changes. A candidate has at most one move of each part.
enum class FitPart { Micro, Recompute, Logits, Layout, Schedule, Validation, Offload, Precision };

// A change of settings that may lower a run's memory, with the same world size and global batch.
struct FitMove {
  FitPart part = FitPart::Micro;
  std::vector<std::string> overrides;  // "memory.recompute=full"
  double slowdown = 0;  // rough, as a fraction of a step: the order in which moves are tried
  int64_t micro = 0;    // Micro: largest micro-batch
  int data_ranks = 0;   // Layout: of the new layout
  int pp = 0;
};

// Whether a step can be run on the phantom device in full, without its steady state shortened, in
// the time of a trial.
bool is_short_step(const Config& config);

// Moves that the configuration leaves open, least slow-down first.
std::vector<FitMove> fit_moves(const ResolvedConfig& resolved);

// Whether `move` goes as far as `other`, or further in the same direction.
bool is_at_least(const FitMove& move, const FitMove& other);

// The overrides of several moves, at most one of each part, with the batch divided anew. Empty if
// nothing changes.
std::vector<std::string> overrides_of(const std::vector<const FitMove*>& moves,
                                      const ResolvedConfig& resolved);

}  // namespace sextant

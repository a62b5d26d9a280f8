#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace sextant {

// The calculator of the ZeRO papers: bytes of training state per parameter, and the largest model
// whose state fits; no activations, no buffers.

// Bytes of one parameter's state without sharding.
struct StateRecipe {
  double weights = 2;
  double gradients = 2;
  double optimizer = 12;  // master weights and moments

  double total() const { return weights + gradients + optimizer; }
};

// bf16 weights and gradients, fp32 master weights, two moments of this many bytes each.
StateRecipe mixed_precision(double moment_size);

// Bytes per parameter and rank when ZeRO `stage` shards over `ranks` ranks (0 is DDP).
//   0  w + g + o     1  w + g + o/N     2  w + (g + o)/N     3  (w + g + o)/N
double state_bytes(const StateRecipe& recipe, int stage, int64_t ranks);
// The limit of state_bytes for many ranks.
double state_floor(const StateRecipe& recipe, int stage);
// Number of parameters whose state fits into `memory` bytes on each rank.
double largest_model(const StateRecipe& recipe, int stage, int64_t ranks, double memory);

inline constexpr int kStages = 4;
std::string stage_name(int stage);  // "DDP", "ZeRO-1"

// A table of all stages.
std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory);

}  // namespace sextant

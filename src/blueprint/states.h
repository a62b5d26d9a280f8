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
  double master = 4;  // weights that the optimizer updates
  double moment = 4;  // each of the two

  double optimizer() const { return master + 2 * moment; }
  double total() const { return weights + gradients + optimizer(); }
};

// A part of the state by name, its bytes without sharding, and the ZeRO stage from which on it is
// sharded.
struct StatePart {
  const char* name;
  double bytes;
  int sharded_from;
};
std::array<StatePart, 5> parts_of(const StateRecipe& recipe);

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

// A table of the parts of the state under all stages.
std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory);

}  // namespace sextant

#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace sextant {

// The calculator of the ZeRO papers: bytes of training state per parameter, and the largest model
// whose state fits; no activations, no buffers.

// Bytes of one parameter's state on a rank that divides nothing.
struct StateRecipe {
  double weights = 2;
  double gradients = 2;
  double optimizer = 12;  // master copy and moments

  double total() const { return weights + gradients + optimizer; }
};

// bf16 weights and gradients, an fp32 master copy, two moments of this many bytes each.
StateRecipe mixed_precision(double moment_size);

// Bytes per parameter and rank when `ranks` divide what ZeRO `stage` says (0 is DDP).
//   0  w + g + o     1  w + g + o/N     2  w + (g + o)/N     3  (w + g + o)/N
double state_bytes(const StateRecipe& recipe, int stage, int64_t ranks);
// What no number of ranks goes below.
double state_floor(const StateRecipe& recipe, int stage);
// Parameters whose state fits into `memory` bytes on each rank.
double largest_model(const StateRecipe& recipe, int stage, int64_t ranks, double memory);

inline constexpr int kStages = 4;
std::string stage_name(int stage);  // "DDP", "ZeRO-1"

// A table of all stages, for people.
std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory);

}  // namespace sextant

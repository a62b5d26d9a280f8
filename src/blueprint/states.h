#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace sextant {

// The calculator of the ZeRO papers: bytes of training state per parameter, and the largest model
// whose state fits; no activations, no buffers.

// Bytes of one parameter's state without sharding.
struct StateRecipe {
  int64_t weights = 2;
  int64_t gradients = 2;
  int64_t master = 4;  // weights that the optimizer updates, where they are not `weights`; or 0
  int64_t moment = 4;  // each of the two

  int64_t optimizer() const { return master + 2 * moment; }
  int64_t total() const { return weights + gradients + optimizer(); }
};

// The recipes that [precision] makes, by their names here.
struct NamedRecipe {
  const char* name;
  const char* text;     // what is kept in which type
  const char* moments;  // their type
  StateRecipe bytes;
};
std::span<const NamedRecipe> state_recipes();

// A part of the state by name, its bytes without sharding, and the ZeRO stage from which on it is
// sharded.
struct StatePart {
  const char* name;
  int64_t bytes;
  int sharded_from;
};
std::array<StatePart, 5> parts_of(const StateRecipe& recipe);

// Bytes per parameter and rank when ZeRO `stage` shards over `ranks` ranks (0 is DDP).
//   0  w + g + o     1  w + g + o/N     2  w + (g + o)/N     3  (w + g + o)/N
double state_bytes(const StateRecipe& recipe, int stage, int64_t ranks);
// The limit of state_bytes for many ranks.
int64_t state_floor(const StateRecipe& recipe, int stage);
// The most parameters whose state fits into `memory` bytes on each rank.
int64_t largest_model(const StateRecipe& recipe, int stage, int64_t ranks, int64_t memory);

inline constexpr int kStages = 4;
std::string stage_name(int stage);  // "DDP", "ZeRO-1"

// A table of the parts of the state under all stages.
std::string states_text(const StateRecipe& recipe, int64_t ranks, int64_t memory);
// Bytes of the state of a model with so many parameters, on each rank.
std::string model_states_text(const StateRecipe& recipe, int64_t ranks, int64_t parameters);

}  // namespace sextant

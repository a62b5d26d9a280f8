#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// Rows of dim 0 of one of our parameters and the rows of a Hugging Face tensor that they equal.
struct HfPiece {
  std::string param;
  int64_t our_row = 0, their_row = 0, rows = 0;
};

// A Hugging Face tensor, assembled from whole rows of our parameters. If it is transposed (gpt2
// stores matrices as [in, out]), "rows" means its columns. The pieces cover all layout differences:
//   ours                                        theirs
//   qkv: per key-value head [q ... q, k, v]     all q, all k, all v, in one tensor or in three
//   gate_up: all gate rows, then all up rows    two tensors
//   experts: one below the other                tensors of each expert
//   rotated columns of deepseek-moe: halves     pairs, and those of keys below kv_a
struct HfTensor {
  std::string name;
  std::vector<int64_t> shape;  // as it is in their file
  bool is_transposed = false;
  std::vector<HfPiece> pieces;  // in the order of their rows, without gaps
};

// The prefix of all tensor names except lm_head.weight in files written by transformers; files of a
// base model without head have none.
std::string_view hf_prefix(Family family);
// A tensor that every model of the family has, without the prefix.
std::string_view hf_marker(Family family);

// All tensors of the model, in its order. Vocabulary rows without padding; no head when it is tied.
std::vector<HfTensor> hf_tensors(const Blueprint& blueprint, std::string_view prefix);

// What a weight is that deepseek-moe models leave out by name, or "".
std::string_view hf_left_out(std::string_view name, std::string_view prefix, int64_t layers);

// Buffers in old files that are not weights, such as the causal mask.
bool is_hf_buffer(std::string_view name);

}  // namespace sextant

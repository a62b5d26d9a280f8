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

// A Hugging Face tensor, made of whole rows of ours. Where it is transposed (gpt2 keeps its
// matrices as [in, out]) "rows" means its columns. What differs between the two is in the pieces
// alone:
//   ours                                        theirs
//   qkv: per key-value head [q ... q, k, v]     all q, all k, all v, in one tensor or in three
//   gate_up: all gate rows, then all up rows    two tensors
struct HfTensor {
  std::string name;
  std::vector<int64_t> shape;  // as it is in their file
  bool is_transposed = false;
  std::vector<HfPiece> pieces;  // in the order of their rows, without holes
};

// The prefix of all names but lm_head.weight in files that transformers writes; files of a bare
// model have none.
std::string_view hf_prefix(Family family);
// A tensor that every model of the family has, without the prefix.
std::string_view hf_marker(Family family);

// All tensors of the model, in its order. Vocabulary rows without padding; no head when it is tied.
std::vector<HfTensor> hf_tensors(const Blueprint& blueprint, std::string_view prefix);

// Constants that old files carry along and nobody reads, such as the causal mask.
bool is_hf_buffer(std::string_view name);

}  // namespace sextant

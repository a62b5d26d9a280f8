#pragma once
#include <span>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// Bytes that one transformer layer (attention and feed-forward) keeps of one micro-batch from
// forward to backward, tensor by tensor, beside the formula published for a layer that keeps the
// matrix of scores, in elements of 2 bytes and dropout masks of 1:
//   plain               sbh (34 + 5as/h)
//   tp                  sbh (10 + 24/t + 5as/(ht))
//   tp with sequence    sbh (34/t + 5as/(ht))

// One tensor: published + by_structure + by_type = kept.
struct ActivationTerm {
  LayerKind layer;      // Attention or Mlp
  std::string tensor;   // "normed input"
  std::string formula;  // its part of the published one, such as "6sbh/4"; "" when it has none
  int64_t published = 0;
  int64_t by_structure = 0;  // because another tensor is kept, in elements of 2 bytes
  int64_t by_type = 0;       // because the run's elements have not 2 bytes
  int64_t kept = 0;
  std::string why;  // of by_structure
};

struct ActivationTable {
  TensorPart tensor;
  std::string formula;  // "sbh(10 + 24/4 + 5as/4h)"
  std::vector<ActivationTerm> terms;
  int64_t published = 0, kept = 0;  // sums of the terms
  int64_t by_structure = 0, by_type = 0;
  int64_t element_size = 0;  // bytes of an element in the run
};

// On one rank of those that share the layers, of whole sequences. What is kept is read off the
// trace of a phantom device (phantom.h) that trains one such layer.
ActivationTable activation_table(const Config& config);

// What of a model the formula does not have: a line each, none for a gpt2 four times as wide
// inside.
std::vector<std::string> formula_notes(const ModelConfig& model);

// "plain", "tp4 without sequence", "tp4 with sequence".
std::string activation_layout(const TensorPart& tensor);

// For people: a line for each table, then each tensor by tensor.
std::string activations_text(std::span<const ActivationTable> tables);

}  // namespace sextant

#pragma once
#include <span>
#include <string>
#include <vector>

#include "blueprint/blueprint.h"

namespace sextant {

// Bytes that one transformer layer (attention and feed-forward) keeps of one micro-batch from
// forward to backward, by tensor, next to the published formula, which stores the attention scores,
// elements of 2 bytes and dropout masks of 1 byte, for each way of recomputing activations:
//                       none                        selective          full
//   plain               sbh (34 + 5as/h)            34 sbh             2 sbh
//   tp                  sbh (10 + 24/t + 5as/(ht))  sbh (10 + 24/t)    2 sbh
//   tp with sequence    sbh (34/t + 5as/(ht))       34 sbh/t           2 sbh/t
// There is no published formula for Recompute::Cheap; it stands beside that of none.

// One tensor: published + by_structure + by_type = kept.
struct ActivationTerm {
  LayerKind layer;      // Attention or Mlp
  std::string tensor;   // "normed input"
  std::string formula;  // its part of the published formula, such as "6sbh/4"; "" if none
  int64_t published = 0;
  int64_t by_structure = 0;  // because other tensors are kept, at 2 bytes per element
  int64_t by_type = 0;       // because the run's elements do not have 2 bytes
  int64_t kept = 0;
  std::string why;  // reason for by_structure
};

struct ActivationTable {
  TensorPart tensor;
  Recompute recompute = Recompute::None;
  std::string formula;  // "sbh(10 + 24/4 + 5as/4h)"
  std::vector<ActivationTerm> terms;
  int64_t published = 0, kept = 0;  // sums over the terms
  int64_t by_structure = 0, by_type = 0;
  int64_t element_size = 0;  // bytes per element in the run
  double extra_flops = 0;    // of recomputation, as a fraction of forward and backward
};

// For one tensor parallel rank, without context parallelism. Kept tensors and FLOPs are read from
// the trace of a phantom device (phantom.h) that trains one such layer.
ActivationTable activation_table(const Config& config);

// Features of a model that the formula does not cover, one line each; none for a GPT-2 with ffn = 4
// hidden.
std::vector<std::string> formula_notes(const ModelConfig& model);

// "plain", "tp4 without sequence", "tp4 with sequence, selective".
std::string activation_layout(const ActivationTable& table);

// One line per table, then the tensors of those without recomputation.
std::string activations_text(std::span<const ActivationTable> tables);

}  // namespace sextant

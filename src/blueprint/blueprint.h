#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace sextant {

// A model as numbers: what tensors it has, what they cost. Pure arithmetic over the configuration;
// the model room builds exactly this.

enum class Init { Normal, Ones, Zeros };

struct ParamSpec {
  std::string name;  // global, such as "layers.3.attention.qkv.weight"
  std::vector<int64_t> shape;
  int64_t valid_rows = 0;  // rows of dim 0 without padding
  Init init = Init::Normal;
  double std = 0;     // of Init::Normal
  bool decay = true;  // matrices decay; norms and biases do not

  int64_t elements() const;        // as stored, padding included
  int64_t valid_elements() const;  // as published
};

enum class LayerKind { Embedding, Attention, Mlp, Head };

struct LayerSpec {
  LayerKind kind;
  std::string name;               // "embedding", "layers.3.attention", "layers.3.mlp", "head"
  std::vector<ParamSpec> params;  // the tied head lists no weight of its own
  int64_t matmul_params = 0;      // weights that every token is multiplied with
};

struct Blueprint {
  ModelConfig model;
  int64_t padded_vocab = 0;
  std::vector<LayerSpec> layers;  // in forward order

  int64_t parameters() const;         // published count: no padding
  int64_t stored_parameters() const;  // with padding
  // 6 * matmul parameters + 6 * layers * attention width * seq: forward and backward, causal
  // attention counted once.
  double flops_per_token(int64_t seq) const;
};

Blueprint make_blueprint(const ModelConfig& model);

// The formula of flops_per_token as text, for the pre-flight table.
std::string flops_formula();

// Rows of the embedding are stored in multiples of this.
inline constexpr int64_t kVocabMultiple = 128;

}  // namespace sextant

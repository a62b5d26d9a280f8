#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/fragment.h"
#include "config/config.h"

namespace sextant {

// A model as numbers: what tensors it has, what they cost. Pure arithmetic over the configuration;
// the model module builds exactly this.

enum class Init { Normal, Ones, Zeros };

// What tells the families apart; nobody else asks for the family.
struct ModelFeatures {
  bool layer_norm = false;  // LayerNorm, with a bias; else RMSNorm
  bool biases = false;      // of the linear layers
  bool gated = false;       // SwiGLU; else GELU
  bool rotary = false;      // positions are rotated into queries and keys; else learned and added
  bool head_norm = false;   // of every query and key head
};
ModelFeatures features_of(const ModelConfig& model);

// One rank of those that share every layer.
struct TensorPart {
  int degree = 1, rank = 0;
  bool sequence = false;  // between their common work each has its own tokens
  bool overlap = false;   // which travel in pieces beside the pieces of that work
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

struct ParamSpec {
  std::string name;            // global, such as "layers.3.attention.qkv.weight"
  std::vector<int64_t> whole;  // shape, padding included
  int64_t valid_rows = 0;      // rows of dim 0 of the whole without padding
  Init init = Init::Normal;
  double std = 0;     // of Init::Normal
  bool decay = true;  // matrices decay; norms and biases do not

  // What this rank holds of it.
  std::vector<int64_t> shape = {};
  Fragment fragment = {};
  // Elements of it that so many ranks in a row have too, and whether their gradients are parts of
  // one sum.
  Range shared = {};
  int copies = 1;
  bool is_partial = false;

  int64_t elements() const;        // as this rank stores it, padding included
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
  ModelFeatures features;
  TensorPart tensor;
  int64_t padded_vocab = 0;       // of the whole
  std::vector<LayerSpec> layers;  // in forward order

  int64_t parameters() const;         // published count: of all ranks, no padding
  int64_t stored_parameters() const;  // with padding, of this rank
  // Of this rank:
  int64_t heads() const { return model.heads / tensor.degree; }
  int64_t kv_heads() const {
    return tensor.degree > model.kv_heads ? 1 : model.kv_heads / tensor.degree;
  }
  int64_t ffn() const { return model.ffn / tensor.degree; }
  int64_t vocab_rows() const { return padded_vocab / tensor.degree; }
  // 6 * matmul parameters + 6 * layers * attention width * seq: forward and backward, causal
  // attention counted once.
  double flops_per_token(int64_t seq) const;
};

// Of one rank of those that share every layer; their degree must divide heads and ffn, and divide
// the key-value heads or be divided by them (config has checked it).
Blueprint make_blueprint(const ModelConfig& model, const TensorPart& tensor = {});

// The formula of flops_per_token as text, for the pre-flight table.
std::string flops_formula();

// Rows of the embedding are stored in multiples of this on each rank.
inline constexpr int64_t kVocabMultiple = 128;

}  // namespace sextant

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/fragment.h"
#include "config/config.h"

namespace sextant {

// A model as numbers: its tensors and their costs. Pure arithmetic over the configuration; the
// model module builds exactly this.

enum class Init { Normal, Ones, Zeros };

// Differences between model families; no other code checks the family.
struct ModelFeatures {
  bool layer_norm = false;  // LayerNorm, with a bias; else RMSNorm
  bool qkv_bias = false;    // of queries, keys and values
  bool out_bias = false;    // of the output projection of attention
  bool mlp_bias = false;    // of the projections of the MLP
  bool gated = false;       // SwiGLU; else GELU
  bool rotary = false;      // RoPE on queries and keys; else learned positions
  bool head_norm = false;   // norm of every query and key head
  bool experts = false;     // a router and experts (SwiGLU) in place of the MLP; maybe not in the
                            // first layers
  bool latent = false;      // multi-head latent attention
};
ModelFeatures features_of(const ModelConfig& model);
// The sliding window of attention where it is shorter than the sequence, else 0.
int64_t window_of(const ModelConfig& model);

// A rank's place in its tensor parallel group.
struct TensorPart {
  int degree = 1, rank = 0;
  bool sequence = false;  // sequence parallel: tokens are sharded between tensor parallel regions
  bool overlap = false;   // overlap tensor parallel communication with compute
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

// A rank's place among those that have the experts between them: some of the experts, and with etp
// (expert tensor parallel) a part of the FFN units of each.
struct ExpertPart {
  int degree = 1, rank = 0;
  int etp = 1, etp_rank = 0;

  bool is_whole() const { return degree == 1 && etp == 1; }
  friend bool operator==(const ExpertPart&, const ExpertPart&) = default;
};

// State of a router, whose gradient is the load error of the experts (their tokens of a step), and
// which has an update of its own.
//   Bias  added to the scores for the choice; moves against the sign of the error
//   Load  the load error of the last step; not part of the published model
enum class RouterState { None, Bias, Load };

struct ParamSpec {
  std::string name;            // global, such as "layers.3.attention.qkv.weight"
  std::vector<int64_t> whole;  // shape, with padding
  int64_t valid_rows = 0;      // rows of `whole` without padding
  Init init = Init::Normal;
  double std = 0;     // of Init::Normal
  bool decay = true;  // matrices decay; norms and biases do not

  // This rank's shard.
  std::vector<int64_t> shape = {};
  Fragment fragment = {};
  // Elements of it that `copies` consecutive ranks hold, and whether their gradients must be
  // summed.
  Range shared = {};
  int copies = 1;
  bool is_partial = false;
  // This rank has some of the experts, or parts of them. Its replicas are not those of others.
  bool is_expert = false;
  RouterState router_state = RouterState::None;

  int64_t elements() const;        // on this rank, with padding
  int64_t valid_elements() const;  // published count
};

enum class LayerKind { Embedding, Attention, Mlp, Experts, Head };
// The second layer of a transformer block.
inline bool is_feed_forward(LayerKind kind) {
  return kind == LayerKind::Mlp || kind == LayerKind::Experts;
}

struct LayerSpec {
  LayerKind kind;
  std::string name;  // "embedding", "layers.3.attention", "layers.3.mlp", "layers.3.moe", "head"
  std::vector<ParamSpec> params;  // a tied head has no weight of its own
  int64_t matmul_params = 0;      // weights multiplied with a token: of the chosen experts only
};

struct Blueprint {
  ModelConfig model;
  ModelFeatures features;
  TensorPart tensor;
  ExpertPart experts;
  int64_t padded_vocab = 0;       // over all ranks
  std::vector<LayerSpec> layers;  // in forward order

  int64_t parameters() const;  // published count: all ranks, no padding
  int64_t expert_layers() const { return features.experts ? model.layers - model.dense_layers : 0; }
  int64_t active_parameters() const;  // the same without the experts that a token does not use
  int64_t stored_parameters() const;  // of this rank, with padding
  // Of this rank:
  int64_t heads() const { return model.heads / tensor.degree; }
  int64_t kv_heads() const {
    return tensor.degree > model.kv_heads ? 1 : model.kv_heads / tensor.degree;
  }
  int64_t ffn() const { return model.ffn / tensor.degree; }
  // Columns of a query and of a key that are rotated.
  int64_t rotary_dim() const { return features.latent ? model.qk_rope_head_dim : model.head_dim; }
  int64_t vocab_rows() const { return padded_vocab / tensor.degree; }
  // 6 * matmul parameters + 6 * layers * attention width * seq: forward and backward, causal
  // attention counted once. A window w takes the place of seq as w (2 - w / seq).
  double flops_per_token(int64_t seq) const;
};

// For one tensor parallel rank; the degree must divide heads and ffn, and divide the key-value
// heads or be a multiple of them (checked in config).
// The degree of `experts` must divide the experts, its etp their ffn.
Blueprint make_blueprint(const ModelConfig& model, const TensorPart& tensor = {},
                         const ExpertPart& experts = {});

// The formula of flops_per_token as text, for the pre-flight table.
std::string flops_formula(const ModelConfig& model);

// The embedding's rows per rank are padded to a multiple of this.
inline constexpr int64_t kVocabMultiple = 128;

}  // namespace sextant

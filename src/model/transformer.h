#pragma once
#include <memory>
#include <span>
#include <vector>

#include "blueprint/blueprint.h"
#include "model/attention.h"
#include "model/head.h"
#include "model/layer.h"
#include "parallel/sharded_params.h"

namespace sextant {

struct TransformerOptions {
  DType dtype = DType::F32;
  LogitsPolicy logits = LogitsPolicy::Keep;
  bool gradients = true;  // false for evaluation and generation: no memory for them
  ZeroStage zero = ZeroStage::None;
  Injection inject = {};
};

// What one micro-batch keeps between forward and backward, layer by layer. Made once, used again.
using Activations = std::vector<Saved>;

// The layers of a blueprint with their parameters, in the memory of one rank. Over the data ranks
// of a mesh the parameters are replicated or divided as options.zero says; without one it is alone.
class Transformer {
 public:
  // The mesh must outlive it.
  Transformer(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options,
              Mesh* mesh = nullptr);

  // Draws every parameter from (seed, its name): the same in every layout. Padding is zero.
  void initialize(Stream& stream, uint64_t seed);

  // Distinct parameters in the blueprint's order, and how they are kept over the data ranks.
  std::span<Param> params() { return params_.params(); }
  ShardedParams& sharded() { return params_; }
  // From now on Param::terms are kept; start_step sets them to zero.
  void count_terms(Stream& stream);
  // The next gradients replace the old ones; they are whole after so many micro-batches.
  void start_step(Stream& stream, int micros = 1);

  Activations make_activations() const { return Activations(layers_.size()); }
  // Loss of each token, [tokens].
  Tensor forward(Stream& stream, const Micro& micro, Activations& activations);
  void backward(Stream& stream, const Micro& micro, Activations& activations);

  // Forward without keeping anything for backward.
  Tensor loss(Stream& stream, const Micro& micro);
  // Logits of all tokens, [tokens, padded vocab], or of the last token of each row.
  enum class Rows { All, Last };
  Tensor logits(Stream& stream, const Micro& micro, Rows rows);

  KvCache make_cache(Stream& stream, int64_t batch, int64_t capacity) const;

  const Blueprint& blueprint() const { return blueprint_; }

 private:
  Param* find(const std::string& name);
  static std::vector<Param> make_params(const Blueprint& blueprint);
  static ParamGroups make_param_groups(const Blueprint& blueprint);
  void make_layers();
  void make_attention(const LayerSpec& spec);
  void make_mlp(const LayerSpec& spec);
  void make_head(const LayerSpec& spec);
  Tensor run_forward(Stream& stream, const Micro& micro, size_t layer, const Tensor& x,
                     Saved& saved);
  Tensor last_rows(Stream& stream, const Micro& micro, const Tensor& x) const;
  Norm norm_of(const std::string& layer);
  Linear linear_of(const std::string& weight);

  Blueprint blueprint_;
  TransformerOptions options_;
  ShardedParams params_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Head* head_ = nullptr;
  Ledger* ledger_ = nullptr;  // where spans of the layers go; null without a trace
};

}  // namespace sextant

#pragma once
#include <memory>
#include <span>
#include <vector>

#include "blueprint/blueprint.h"
#include "model/attention.h"
#include "model/head.h"
#include "model/layer.h"

namespace sextant {

struct TransformerOptions {
  DType dtype = DType::F32;
  LogitsPolicy logits = LogitsPolicy::Keep;
  bool gradients = true;  // false for evaluation and generation: no memory for them
};

// What one micro-batch keeps between forward and backward, layer by layer. Made once, used again.
using Activations = std::vector<Saved>;

// The layers of a blueprint with their parameters, in the memory of one rank.
class Transformer {
 public:
  Transformer(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options);

  // Draws every parameter from (seed, its name): the same in every layout. Padding is zero.
  void initialize(Stream& stream, uint64_t seed);

  // Distinct parameters in the blueprint's order.
  std::span<Param> params() { return params_; }
  void start_step();  // the next gradients replace the old ones

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
  void make_params(Stream& stream);
  void make_layers();
  void make_attention(const LayerSpec& spec);
  void make_mlp(const LayerSpec& spec);
  void make_head(const LayerSpec& spec);
  Norm norm_of(const std::string& layer);
  Linear linear_of(const std::string& weight);

  Blueprint blueprint_;
  TransformerOptions options_;
  std::vector<Param> params_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Head* head_ = nullptr;
};

}  // namespace sextant

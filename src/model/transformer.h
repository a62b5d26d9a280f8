#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "blueprint/blueprint.h"
#include "mesh/serial_mesh.h"
#include "model/attention.h"
#include "model/head.h"
#include "model/layer.h"
#include "parallel/sharded_params.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

struct TransformerOptions {
  NumberTypes types = {};
  LogitsPolicy logits = LogitsPolicy::Keep;
  bool gradients = true;  // false for evaluation and generation: no memory for them
  ZeroStage zero = ZeroStage::None;
  ContextPart context = {};  // which of the ranks that share the sequences this is
  Injection inject = {};
  uint64_t seed = 0;  // of the masks of dropout
};

// What one micro-batch keeps between forward and backward, layer by layer. Made once, used again.
using Activations = std::vector<Saved>;

// The parameters of a rank's part of a model, replicated or divided over the data ranks of the mesh
// as options.zero says. All ranks of the mesh make theirs together; it must outlive them.
ShardedParams make_sharded(Stream& stream, const Blueprint& blueprint,
                           const TransformerOptions& options, Mesh& mesh, const RankPart& part);

// The layers of a blueprint that one rank holds: all of them, or its part of a pipeline. Their
// parameters stand beside it.
class Transformer {
 public:
  // The whole model on one rank alone, with parameters of its own.
  Transformer(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options);
  // `part` of it, which `params` are those of. All ranks of the mesh make theirs together;
  // blueprint, mesh and parameters must outlive it.
  Transformer(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options,
              Mesh& mesh, const RankPart& part, ShardedParams& params);

  // Draws every parameter from (seed, its name): the same in every layout. Padding is zero.
  void initialize(Stream& stream, uint64_t seed);

  // Distinct parameters in the blueprint's order, and how they are kept over the data ranks.
  std::span<Param> params() { return params_->params(); }
  ShardedParams& sharded() { return *params_; }
  // From now on Param::terms are kept; start_step sets them to zero.
  void count_terms(Stream& stream);

  // The uses of the program follow, and the gradients of the step start anew; or nothing but
  // forward passes. It must outlive them.
  void start_step(Stream& stream, const StateProgram& program);
  void start_evaluation(const StateProgram& program) { params_->begin_evaluation(program); }
  // One layer's turn. Forward takes x and gives y, Backward and Input take dy and give dx, Weight
  // takes and gives nothing. The first layer of the model takes no x and gives no dx; the last one
  // gives the loss of each token, [tokens], and takes no dy.
  Tensor run(Stream& stream, const Micro& micro, const LayerUse& use, const Tensor& in,
             Saved& saved);

  // For a whole model: so many micro-batches follow, each forward and then back.
  void start_step(Stream& stream, int micros = 1);
  Activations make_activations() const { return Activations(layers_.size()); }
  Tensor forward(Stream& stream, const Micro& micro, Activations& activations);
  void backward(Stream& stream, const Micro& micro, Activations& activations);

  // Forward without keeping anything for backward.
  Tensor loss(Stream& stream, const Micro& micro);
  // Logits of all tokens, [tokens, padded vocab], or of the last token of each row.
  enum class Rows { All, Last };
  Tensor logits(Stream& stream, const Micro& micro, Rows rows);

  KvCache make_cache(Stream& stream, int64_t batch, int64_t capacity) const;

  const Blueprint& blueprint() const { return *blueprint_; }
  const RankPart& part() const { return part_; }
  const NumberTypes& types() const { return options_.types; }
  const ContextPart& context() const { return options_.context; }
  // Shape of what passes from layer to layer on this rank, for a micro-batch of so many tokens that
  // it, or those that share its layers, have.
  Shape hidden_shape(int64_t tokens) const {
    return {tensor_->own(tokens).size(), blueprint_->model.hidden};
  }

 private:
  // What a whole model on one rank has besides.
  struct Alone {
    Alone(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options);
    Blueprint blueprint;
    SerialMesh mesh;
    ShardedParams params;
  };

  Transformer(Stream& stream, const TransformerOptions& options, std::unique_ptr<Alone> alone);
  Param* find(const std::string& name);
  int64_t first_vocab_row() const { return blueprint_->tensor.rank * blueprint_->vocab_rows(); }
  void make_layers();
  void make_attention(const LayerSpec& spec, size_t index);
  void make_mlp(const LayerSpec& spec);
  void make_head(const LayerSpec& spec);
  Tensor evaluate(Stream& stream, const Micro& micro, size_t layers);
  Tensor last_rows(Stream& stream, const Micro& micro, const Tensor& x) const;
  Dropout dropout_of(const std::string& layer) const;
  Norm norm_of(const std::string& layer);
  Linear linear_of(const std::string& weight);

  const Blueprint* blueprint_;
  RankPart part_;
  TransformerOptions options_;
  std::unique_ptr<Alone> alone_;           // of a whole model
  Ledger* ledger_;                         // where spans of the layers go
  std::unique_ptr<TensorRanks> tensor_;    // that share the layers, which point to it
  std::unique_ptr<ContextRanks> context_;  // that share the sequences; layers point to it
  ShardedParams* params_;
  std::unordered_map<std::string, Param*> by_name_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Head* head_ = nullptr;
  StateProgram serial_, evaluation_;  // of a whole model
  int micro_ = 0;                     // of serial_
};

}  // namespace sextant

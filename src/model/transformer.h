#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "blueprint/blueprint.h"
#include "mesh/mesh.h"
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

// The parameters of a rank's part of a model, replicated or divided over the data ranks of the mesh
// as options.zero says. All ranks of the mesh make theirs together; it must outlive them.
ShardedParams make_sharded(Stream& stream, const Blueprint& blueprint,
                           const TransformerOptions& options, Mesh& mesh, const RankPart& part);

// The layers of a blueprint that one rank holds: all of them, or its part of a pipeline. Their
// parameters stand beside it.
class Transformer {
 public:
  // `params` are those of `part`. All ranks of the mesh make theirs together; blueprint, mesh and
  // parameters must outlive it.
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
  // One layer's turn. Forward takes x and gives y, Recompute takes x if the layer kept none and
  // gives y if a layer that keeps none follows. The first layer of the model takes no x; the last
  // one gives Micro::output in place of a hidden state.
  Hidden forward(Stream& stream, const Micro& micro, const LayerUse& use, Hidden x, Saved& saved);
  // Backward and Input take dy and give dx, Weight takes and gives nothing. The last layer takes no
  // dy, the first one gives no dx.
  Tensor backward(Stream& stream, const Micro& micro, const LayerUse& use, const Tensor& dy,
                  Saved& saved);

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
  Param* find(const std::string& name);
  int64_t first_vocab_row() const { return blueprint_->tensor.rank * blueprint_->vocab_rows(); }
  void make_layers();
  void make_attention(const LayerSpec& spec, size_t index);
  void make_mlp(const LayerSpec& spec);
  void make_head(const LayerSpec& spec);
  // The layer's turn between what becomes of its parameters before and after.
  void take_turn(Stream& stream, const LayerUse& use, FunctionRef<void(Layer& layer)> turn);
  Dropout dropout_of(const std::string& layer) const;
  Norm norm_of(const std::string& layer);
  Linear linear_of(const std::string& weight);

  const Blueprint* blueprint_;
  RankPart part_;
  TransformerOptions options_;
  Ledger* ledger_;                         // where spans of the layers go
  std::unique_ptr<TensorRanks> tensor_;    // that share the layers, which point to it
  std::unique_ptr<ContextRanks> context_;  // that share the sequences; layers point to it
  ShardedParams* params_;
  std::unordered_map<std::string, Param*> by_name_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace sextant

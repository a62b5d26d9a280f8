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
#include "model/experts.h"
#include "model/head.h"
#include "model/layer.h"
#include "parallel/sharded_params.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

struct TransformerOptions {
  NumberTypes types = {};
  LogitsPolicy logits = LogitsPolicy::Keep;
  bool gradients = true;  // false for evaluation and generation: no gradient memory
  ZeroStage zero = ZeroStage::None;
  ContextPart context = {};  // this rank's place in the context parallel group
  Injection inject = {};
  uint64_t seed = 0;  // of dropout masks
  RouterLossWeights router_losses = {};
  BalanceUnit balance_unit = BalanceUnit::Micro;
  int64_t step_tokens = 0;     // of the global batch
  double expert_capacity = 0;  // ExpertRanks::Sizes::capacity
  double capacity_factor = 0;  // ExpertRanks::Sizes::factor
  int expert_node = 1;         // ranks of a node of ExpertExchange
};

// The parameters of a rank's layers, replicated or sharded over the data parallel ranks of the mesh
// as options.zero says. Collective over the mesh, which must outlive them.
ShardedParams make_sharded(Stream& stream, const Blueprint& blueprint,
                           const TransformerOptions& options, Mesh& mesh, const RankPart& part);

// The layers of a blueprint that one rank holds: all of them, or its pipeline stages. Their
// parameters are in a ShardedParams.
class Transformer {
 public:
  // `params`: those of `part`. Collective over the mesh; blueprint, mesh and parameters must
  // outlive this object.
  Transformer(Stream& stream, const Blueprint& blueprint, const TransformerOptions& options,
              Mesh& mesh, const RankPart& part, ShardedParams& params);

  // Draws every parameter from (seed, its name): equal in every layout. Padding is zero.
  void initialize(Stream& stream, uint64_t seed);

  // Distinct parameters in the blueprint's order, and their sharding over data parallel ranks.
  std::span<Param> params() { return params_->params(); }
  ShardedParams& sharded() { return *params_; }

  // The next calls follow the uses of `program`, which must outlive them. start_step resets the
  // gradients; start_evaluation is for forward passes only.
  void start_step(const StateProgram& program) { params_->begin_step(program); }
  void start_evaluation(const StateProgram& program) { params_->begin_evaluation(program); }
  // Runs one layer. Forward maps x to y. Recompute takes x if the layer kept none, and returns y if
  // the next layer keeps none. The first layer of the model takes no x; the last returns
  // Micro::output.
  Hidden forward(Stream& stream, const Micro& micro, const LayerUse& use, Hidden x, Saved& saved);
  // Backward and Input map dy to dx, Weight takes and returns nothing. The last layer takes no dy,
  // the first one returns no dx.
  Tensor backward(Stream& stream, const Micro& micro, const LayerUse& use, const Tensor& dy,
                  Saved& saved);

  KvCache make_cache(Stream& stream, int64_t batch, int64_t capacity) const;

  Statistics& statistics() { return *statistics_; }
  const Blueprint& blueprint() const { return *blueprint_; }
  int64_t expert_layers() const { return expert_layers_; }  // of this rank
  const RankPart& part() const { return part_; }
  const NumberTypes& types() const { return options_.types; }
  const ContextPart& context() const { return options_.context; }
  // Shape of hidden states on this rank for a micro-batch of `tokens` tokens: sequence parallel
  // ranks have a part of them.
  Shape hidden_shape(int64_t tokens) const {
    return {tensor_->own(tokens).size(), blueprint_->model.hidden};
  }

 private:
  Param* find(const std::string& name);
  int64_t first_vocab_row() const { return blueprint_->tensor.rank * blueprint_->vocab_rows(); }
  void make_layers();
  void make_attention(const LayerSpec& spec, size_t index);
  void make_latent_attention(const LayerSpec& spec, size_t index);
  void make_mlp(const LayerSpec& spec);
  void make_experts(const LayerSpec& spec);
  void make_head(const LayerSpec& spec);
  // Runs `pass` on the layer, with the state events of its parameters before and after.
  void run_layer(Stream& stream, const LayerUse& use, FunctionRef<void(Layer& layer)> pass);
  Dropout dropout_of(const std::string& layer) const;
  Norm norm_of(const std::string& layer);
  Linear linear_of(const std::string& weight);

  const Blueprint* blueprint_;
  RankPart part_;
  TransformerOptions options_;
  Ledger* ledger_;                            // receives the layers' spans
  std::unique_ptr<TensorRanks> tensor_;       // tensor parallel; layers point to it
  std::unique_ptr<ContextRanks> context_;     // context parallel; layers point to it
  std::unique_ptr<ExpertRanks> experts_;      // expert parallel; layers point to it
  std::unique_ptr<ExpertExchange> exchange_;  // of their rows; layers point to it
  std::unique_ptr<AmaxRanks> amax_;           // of fp8 scales
  std::unique_ptr<Fp8Operands> fp8_;          // null without fp8; layers point to it
  std::unique_ptr<Statistics> statistics_;    // layers point to it
  int64_t expert_layers_ = 0;
  ShardedParams* params_;
  std::unordered_map<std::string, Param*> by_name_;
  RopeTable rope_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace sextant

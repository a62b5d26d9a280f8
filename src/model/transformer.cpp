#include "model/transformer.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "blueprint/rope_factor.h"
#include "model/embedding.h"
#include "model/latent_attention.h"
#include "model/mlp.h"
#include "ops/random_fill.h"
#include "ops/rope.h"
#include "program/groups.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

RopeSlowing slowing_of(RopeType type) {
  switch (type) {
    case RopeType::Llama3:
      return RopeSlowing::Llama3;
    case RopeType::Linear:
      return RopeSlowing::Linear;
    case RopeType::Yarn:
      return RopeSlowing::Yarn;
  }
  SXT_FAIL(Internal, "a rope type without an op");
}

RopeFrequencies frequencies_of(const ModelConfig& model) {
  const RopeScaling& rope = model.rope_scaling;
  return {.theta = model.rope_theta,
          .factor = rope.factor,
          .low_freq_factor = rope.low_freq_factor,
          .high_freq_factor = rope.high_freq_factor,
          .original_seq = rope.original_seq,
          .slowing = slowing_of(rope.type),
          .beta_fast = rope.beta_fast,
          .beta_slow = rope.beta_slow,
          .attention_factor = rope_attention_factor(rope)};
}

Router router_of(RouterKind kind) {
  switch (kind) {
    case RouterKind::SoftmaxAfter:
      return Router::SoftmaxAfter;
    case RouterKind::SoftmaxBefore:
      return Router::SoftmaxBefore;
    case RouterKind::Balanced:
      return Router::Balanced;
    case RouterKind::Sigmoid:
      return Router::Sigmoid;
  }
  SXT_FAIL(Internal, "a router without an op");
}

const char* name_of(Pass pass) {
  constexpr const char* kNames[] = {"forward", "backward", "backward input", "backward weight",
                                    "recompute"};
  return kNames[static_cast<size_t>(pass)];
}

}  // namespace

ShardedParams make_sharded(Stream& stream, const Blueprint& blueprint,
                           const TransformerOptions& options, Mesh& mesh, const RankPart& part) {
  const GroupPlan plan = make_groups(blueprint, part);
  return ShardedParams(stream, make_params(blueprint, plan), plan, mesh,
                       {options.zero, options.types, options.gradients, options.inject,
                        part.duplicates, part.is_second});
}

Transformer::Transformer(Stream& stream, const Blueprint& blueprint,
                         const TransformerOptions& options, Mesh& mesh, const RankPart& part,
                         ShardedParams& params)
    : blueprint_(&blueprint),
      part_(part),
      options_(options),
      ledger_(&mesh.world().ledger()),
      tensor_(std::make_unique<TensorRanks>(
          mesh.along(Axis::Tp), blueprint.tensor.sequence,
          blueprint.tensor.overlap ? TensorRanks::Moves::InPieces : TensorRanks::Moves::Whole,
          options.inject)),
      context_(std::make_unique<ContextRanks>(mesh.along(Axis::Cp), options.context,
                                              blueprint.model.seq, options.inject)),
      experts_(std::make_unique<ExpertRanks>(
          mesh,
          ExpertRanks::Sizes{std::max<int64_t>(1, blueprint.model.experts),
                             std::max<int64_t>(1, blueprint.model.experts_per_token),
                             options.expert_capacity, options.capacity_factor,
                             mesh.along(Axis::Cp).size() *
                                 (blueprint.tensor.sequence ? mesh.along(Axis::Tp).size() : 1)},
          options.inject)),
      exchange_(std::make_unique<ExpertExchange>(mesh.along(ExpertAxis::Ep), *experts_,
                                                 options.expert_node)),
      amax_(
          std::make_unique<AmaxRanks>(mesh.along(Axis::Tp), mesh.along(Axis::Cp), options.inject)),
      fp8_(is_fp8(options.types.linear)
               ? std::make_unique<Fp8Operands>(options.types.fp8.recipe, *amax_, params.delayed(),
                                               stream.device().modelled() == DeviceKind::Cuda &&
                                                       !tensor_->is_sequence_parallel()
                                                   ? Fp8Operands::Turns::WhereSizesAllow
                                                   : Fp8Operands::Turns::Never)
               : nullptr),
      statistics_(std::make_unique<Statistics>(
          options.inject.hits(InjectionKind::NarrowStatistics, ledger_->rank)
              ? Statistics::Rounding::ToBf16
              : Statistics::Rounding::None)),
      params_(&params) {
  const ModelConfig& model = blueprint_->model;
  if (blueprint_->features.rotary) {
    const Shape shape{model.seq, blueprint_->rotary_dim() / 2};
    rope_.cos = stream.arena().allocate(Category::Workspace, options_.types.statistics, shape);
    rope_.sin = stream.arena().allocate(Category::Workspace, options_.types.statistics, shape);
    rope_table(stream, rope_.cos, rope_.sin, frequencies_of(model));
  }
  for (Param& param : params_->params()) by_name_[param.name] = &param;
  make_layers();
}

Param* Transformer::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Dropout Transformer::dropout_of(const std::string& layer) const {
  return {layer + ".dropout", blueprint_->model.dropout, options_.seed, options_.inject,
          ledger_->rank};
}

Norm Transformer::norm_of(const std::string& layer) {
  return {find(layer + ".norm.weight"), find(layer + ".norm.bias"), blueprint_->model.norm_eps,
          options_.types.statistics, statistics_.get()};
}

Linear Transformer::linear_of(const std::string& name) {
  return {find(name + ".weight"), find(name + ".bias"), fp8_.get()};
}

void Transformer::make_layers() {
  size_t attention = 0;
  for (const size_t layer : part_.layers) {
    const LayerSpec& spec = blueprint_->layers[layer];
    switch (spec.kind) {
      case LayerKind::Embedding:
        layers_.push_back(
            std::make_unique<Embedding>(EmbeddingParts{find(spec.name + ".tokens.weight"),
                                                       find(spec.name + ".positions.weight"),
                                                       {first_vocab_row(), blueprint_->model.vocab},
                                                       tensor_.get(),
                                                       dropout_of(spec.name)}));
        break;
      case LayerKind::Attention:
        make_attention(spec, attention++);
        break;
      case LayerKind::Mlp:
        make_mlp(spec);
        break;
      case LayerKind::Experts:
        make_experts(spec);
        break;
      case LayerKind::Head:
        make_head(spec);
        break;
    }
  }
}

void Transformer::make_latent_attention(const LayerSpec& spec, size_t index) {
  const ModelConfig& model = blueprint_->model;
  LatentAttentionParts parts{.norm = norm_of(spec.name),
                             .q_a = find(spec.name + ".q_a.weight"),
                             .q_norm = find(spec.name + ".q_a_norm.weight"),
                             .q_b = linear_of(spec.name + ".q_b"),
                             .kv_a = find(spec.name + ".kv_a.weight"),
                             .kv_norm = find(spec.name + ".kv_a_norm.weight"),
                             .k_rope = find(spec.name + ".k_rope.weight"),
                             .kv_b = linear_of(spec.name + ".kv_b"),
                             .out = linear_of(spec.name + ".out"),
                             .ranks = tensor_.get(),
                             .context = context_.get(),
                             .dropout = dropout_of(spec.name)};
  const LatentHeads heads{0,
                          blueprint_->heads(),
                          model.head_dim - model.qk_rope_head_dim,
                          model.qk_rope_head_dim,
                          model.v_head_dim,
                          rope_query_scale(model.rope_scaling)};
  layers_.push_back(std::make_unique<LatentAttention>(parts, heads, rope_, index));
}

void Transformer::make_attention(const LayerSpec& spec, size_t index) {
  if (blueprint_->features.latent) return make_latent_attention(spec, index);
  const AttentionParts parts{norm_of(spec.name),
                             linear_of(spec.name + ".qkv"),
                             linear_of(spec.name + ".out"),
                             find(spec.name + ".q_norm.weight"),
                             find(spec.name + ".k_norm.weight"),
                             tensor_.get(),
                             context_.get(),
                             dropout_of(spec.name)};
  const ModelConfig& model = blueprint_->model;
  const Heads heads{
      1, 0, blueprint_->heads(), blueprint_->kv_heads(), model.head_dim, window_of(model)};
  layers_.push_back(std::make_unique<Attention>(parts, heads, rope_, index));
}

void Transformer::make_experts(const LayerSpec& spec) {
  ExpertsParts parts{spec.name,
                     norm_of(spec.name),
                     find(spec.name + ".router.weight"),
                     find(spec.name + ".router.bias"),
                     find(spec.name + ".router.load"),
                     {find(spec.name + ".experts.gate_up.weight"), fp8_.get()},
                     {find(spec.name + ".experts.down.weight"), fp8_.get()},
                     tensor_.get(),
                     context_.get(),
                     experts_.get(),
                     exchange_.get()};
  const ModelConfig& model = blueprint_->model;
  parts.shared_up = linear_of(spec.name + ".shared.gate_up");
  parts.shared_down = linear_of(spec.name + ".shared.down");
  parts.routing = {router_of(model.router), model.router_groups, model.groups_per_token,
                   model.router_normalize, model.router_scale};
  parts.chosen = model.experts_per_token;
  parts.inject = options_.inject;
  parts.world_rank = ledger_->rank;
  parts.losses = options_.router_losses;
  parts.unit = options_.balance_unit;
  parts.step_tokens = options_.step_tokens;
  parts.row = expert_layers_++;
  parts.dropout = dropout_of(spec.name);
  layers_.push_back(std::make_unique<Experts>(parts));
}

void Transformer::make_mlp(const LayerSpec& spec) {
  const ModelConfig& model = blueprint_->model;
  const bool gated = blueprint_->features.gated;
  std::optional<Activation> activation;
  if (!gated) activation = model.gelu_exact ? Activation::GeluExact : Activation::GeluTanh;
  layers_.push_back(std::make_unique<Mlp>(
      MlpParts{norm_of(spec.name), linear_of(spec.name + (gated ? ".gate_up" : ".up")),
               linear_of(spec.name + ".down"), activation, tensor_.get(), dropout_of(spec.name)}));
}

void Transformer::make_head(const LayerSpec& spec) {
  const ModelConfig& model = blueprint_->model;
  const bool is_shifted = tensor_->is_injected(InjectionKind::ShiftedVocab);
  Linear output = linear_of(model.tied ? "embedding.tokens" : spec.name + ".output");
  output.fp8 = nullptr;  // stays in the compute type
  layers_.push_back(std::make_unique<Head>(
      HeadParts{norm_of(spec.name), output, model.tied, model.vocab, options_.logits,
                first_vocab_row() + (is_shifted ? 1 : 0), tensor_.get()}));
}

void Transformer::initialize(Stream& stream, uint64_t seed) {
  std::map<std::string_view, const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint_->layers)
    for (const ParamSpec& spec : layer.params) specs.emplace(spec.name, &spec);
  if (options_.inject.hits(InjectionKind::RankInit, ledger_->rank))
    seed += static_cast<uint64_t>(ledger_->rank);
  const bool is_local = options_.inject.hits(InjectionKind::LocalInit, ledger_->rank);
  params_->await_weights();
  params_->for_each_kept([&](const Param& param, const Range& range, Tensor values) {
    const ParamSpec& spec = *specs.at(param.name);
    if (spec.init != Init::Normal) {
      fill_constant(stream, values, spec.init == Init::Ones ? 1 : 0);
      return;
    }
    param.fragment.for_each_run(range, [&](const Range& run, int64_t first) {
      Tensor all = values.slice(run.begin - range.begin, run.end - range.begin);
      const int64_t valid = overlap({first, first + run.size()}, {0, spec.valid_elements()}).size();
      Tensor drawn = all.slice(0, valid), padding = all.slice(valid, run.size());
      fill_normal(stream, drawn, seed, spec.name, spec.std,
                  is_local ? run.begin - range.begin : first);
      fill_zero(stream, padding);
    });
  });
}

void Transformer::run_layer(Stream& stream, const LayerUse& use,
                            FunctionRef<void(Layer& layer)> pass) {
  const auto index = static_cast<size_t>(use.layer);
  const RecordedScope scope(
      stream.recorder(), {static_cast<int32_t>(part_.layers[index]), use.micro, name_of(use.pass)});
  params_->before(stream, use);
  {
    const SpanTimer timer(ledger_, name_of(use.pass), blueprint_->layers[part_.layers[index]].name);
    pass(*layers_[index]);
  }
  params_->after(stream);
}

Hidden Transformer::forward(Stream& stream, const Micro& micro, const LayerUse& use, Hidden x,
                            Saved& saved) {
  const Keep keep = part_.keeps[static_cast<size_t>(use.layer)];
  Hidden y;
  run_layer(stream, use, [&](Layer& layer) {
    const bool is_cut = use.phase != Phase::Whole;
    if (use.pass == Pass::Recompute) {
      y = is_cut ? layer.recompute_phase(stream, micro, use.phase, keep, std::move(x), saved)
                 : layer.recompute(stream, micro, keep, std::move(x), saved);
      return;
    }
    y = is_cut ? layer.forward_phase(stream, micro, use.phase, std::move(x), saved)
               : layer.forward(stream, micro, std::move(x), saved);
    if (use.ends() && keep != Keep::All) layer.discard_activations(keep, saved);
  });
  return y;
}

Tensor Transformer::backward(Stream& stream, const Micro& micro, const LayerUse& use,
                             const Tensor& dy, Saved& saved) {
  Tensor dx;
  run_layer(stream, use, [&](Layer& layer) {
    const bool is_lost =
        use.micro == 0 && options_.inject.hits(InjectionKind::LostWeightGradient, ledger_->rank);
    const bool is_whole = use.pass == Pass::Backward;
    const Pass pass = is_whole && is_lost ? Pass::Input : use.pass;
    if (use.phase != Phase::Whole)
      dx = layer.backward_phase(stream, micro, use.phase, pass, dy, saved);
    else if (pass == Pass::Backward)
      dx = layer.backward(stream, micro, dy, saved);
    else if (pass == Pass::Input)
      dx = layer.backward_input(stream, micro, dy, saved);
    else if (!is_lost)
      layer.backward_weight(stream, micro, saved);
    if (is_lost && use.ends() && (is_whole || pass == Pass::Weight)) saved.clear();
  });
  return dx;
}

KvCache Transformer::make_cache(Stream& stream, int64_t batch, int64_t capacity) const {
  const ModelConfig& model = blueprint_->model;
  const Shape shape{batch, model.kv_heads, capacity, model.head_dim};
  KvCache cache;
  for (int64_t i = 0; i < model.layers; ++i) {
    cache.keys.push_back(
        stream.arena().allocate(Category::Activations, options_.types.compute, shape));
    cache.values.push_back(
        stream.arena().allocate(Category::Activations, options_.types.compute, shape));
  }
  return cache;
}

}  // namespace sextant

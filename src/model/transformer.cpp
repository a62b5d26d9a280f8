#include "model/transformer.h"

#include <map>
#include <string_view>

#include "blueprint/groups.h"
#include "model/embedding.h"
#include "model/mlp.h"
#include "ops/random_fill.h"
#include "ops/rope.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

RopeFrequencies frequencies_of(const ModelConfig& model) {
  return {model.rope_theta, model.rope_scaling.factor, model.rope_scaling.low_freq_factor,
          model.rope_scaling.high_freq_factor, model.rope_scaling.original_seq};
}

}  // namespace

Transformer::Transformer(Stream& stream, const Blueprint& blueprint,
                         const TransformerOptions& options, Mesh* mesh)
    : blueprint_(blueprint),
      options_(options),
      params_(stream, make_params(blueprint), make_param_groups(blueprint), mesh,
              {options.zero, options.dtype, options.gradients, options.inject}) {
  const ModelConfig& model = blueprint_.model;
  if (model.family != Family::Gpt2) {
    const Shape shape{model.seq, model.head_dim / 2};
    rope_.cos = stream.arena().allocate(Category::Workspace, options_.dtype, shape);
    rope_.sin = stream.arena().allocate(Category::Workspace, options_.dtype, shape);
    rope_table(stream, rope_.cos, rope_.sin, frequencies_of(model));
  }
  make_layers();
  if (mesh != nullptr && mesh->world().ledger().trace != nullptr) ledger_ = &mesh->world().ledger();
}

std::vector<Param> Transformer::make_params(const Blueprint& blueprint) {
  std::vector<Param> params;
  for (const LayerSpec& layer : blueprint.layers) {
    for (const ParamSpec& spec : layer.params) {
      Param param;
      param.name = spec.name;
      param.shape = Shape{std::span<const int64_t>(spec.shape)};
      param.decay = spec.decay;
      param.valid_rows = spec.valid_rows;
      params.push_back(std::move(param));
    }
  }
  return params;
}

ParamGroups Transformer::make_param_groups(const Blueprint& blueprint) {
  const GroupPlan plan = make_groups(blueprint);
  ParamGroups groups;
  for (const GroupSpec& group : plan.groups) {
    groups.names.push_back(group.name);
    groups.params.emplace_back(group.params.begin(), group.params.end());
  }
  groups.group_of_layer.assign(plan.group_of_layer.begin(), plan.group_of_layer.end());
  for (const LayerSpec& layer : blueprint.layers)
    groups.reads_in_backward.push_back(reads_weights_in_backward(layer.kind));
  return groups;
}

Param* Transformer::find(const std::string& name) {
  for (Param& param : params_.params())
    if (param.name == name) return &param;
  return nullptr;
}

Norm Transformer::norm_of(const std::string& layer) {
  return {find(layer + ".norm.weight"), find(layer + ".norm.bias"), blueprint_.model.norm_eps};
}

Linear Transformer::linear_of(const std::string& name) {
  return {find(name + ".weight"), find(name + ".bias")};
}

void Transformer::make_layers() {
  for (const LayerSpec& spec : blueprint_.layers) {
    switch (spec.kind) {
      case LayerKind::Embedding:
        layers_.push_back(std::make_unique<Embedding>(find(spec.name + ".tokens.weight"),
                                                      find(spec.name + ".positions.weight")));
        break;
      case LayerKind::Attention:
        make_attention(spec);
        break;
      case LayerKind::Mlp:
        make_mlp(spec);
        break;
      case LayerKind::Head:
        make_head(spec);
        break;
    }
  }
}

void Transformer::make_attention(const LayerSpec& spec) {
  const ModelConfig& model = blueprint_.model;
  const AttentionParts parts{norm_of(spec.name), linear_of(spec.name + ".qkv"),
                             linear_of(spec.name + ".out"), find(spec.name + ".q_norm.weight"),
                             find(spec.name + ".k_norm.weight")};
  const Heads heads{1, 0, model.heads, model.kv_heads, model.head_dim};
  const size_t index = (layers_.size() - 1) / 2;  // after the embedding, every second layer
  layers_.push_back(std::make_unique<Attention>(parts, heads, rope_, index));
}

void Transformer::make_mlp(const LayerSpec& spec) {
  const ModelConfig& model = blueprint_.model;
  const bool gated = model.family != Family::Gpt2;
  const Activation activation = gated              ? Activation::None
                                : model.gelu_exact ? Activation::GeluExact
                                                   : Activation::GeluTanh;
  layers_.push_back(std::make_unique<Mlp>(
      MlpParts{norm_of(spec.name), linear_of(spec.name + (gated ? ".gate_up" : ".up")),
               linear_of(spec.name + ".down"), activation}));
}

void Transformer::make_head(const LayerSpec& spec) {
  const ModelConfig& model = blueprint_.model;
  const Linear output = linear_of(model.tied ? "embedding.tokens" : spec.name + ".output");
  auto head = std::make_unique<Head>(
      HeadParts{norm_of(spec.name), output, model.tied, model.vocab, options_.logits});
  head_ = head.get();
  layers_.push_back(std::move(head));
}

void Transformer::initialize(Stream& stream, uint64_t seed) {
  std::map<std::string_view, const ParamSpec*> specs;
  for (const LayerSpec& layer : blueprint_.layers)
    for (const ParamSpec& spec : layer.params) specs.emplace(spec.name, &spec);
  params_.settle();
  params_.for_each_kept([&](const Param& param, const Share& range, Tensor values) {
    const ParamSpec& spec = *specs.at(param.name);
    if (spec.init != Init::Normal) {
      fill_constant(stream, values, spec.init == Init::Ones ? 1 : 0);
      return;
    }
    const int64_t valid = overlap(range, {0, spec.valid_elements()}).size();
    Tensor drawn = values.slice(0, valid), padding = values.slice(valid, range.size());
    fill_normal(stream, drawn, seed, spec.name, spec.std, range.begin);
    fill_zero(stream, padding);
  });
}

void Transformer::count_terms(Stream& stream) {
  for (Param& param : params_.params())
    param.terms = stream.arena().allocate(Category::Workspace, DType::F64, {1});
}

void Transformer::start_step(Stream& stream, int micros) {
  params_.begin_step(micros);
  for (Param& param : params_.params())
    if (param.terms) fill_zero(stream, param.terms);
}

Tensor Transformer::run_forward(Stream& stream, const Micro& micro, size_t layer, const Tensor& x,
                                Saved& saved) {
  params_.before(stream, Pass::Forward, layer);
  Tensor y;
  {
    const SpanTimer timer(ledger_, "forward", blueprint_.layers[layer].name);
    y = layers_[layer]->forward(stream, micro, x, saved);
  }
  params_.after(stream, Pass::Forward, layer);
  return y;
}

Tensor Transformer::forward(Stream& stream, const Micro& micro, Activations& activations) {
  params_.begin_micro();
  Tensor x;
  for (size_t i = 0; i < layers_.size(); ++i) x = run_forward(stream, micro, i, x, activations[i]);
  return x;
}

void Transformer::backward(Stream& stream, const Micro& micro, Activations& activations) {
  Tensor dy;
  for (size_t i = layers_.size(); i-- > 0;) {
    params_.before(stream, Pass::Backward, i);
    {
      const SpanTimer timer(ledger_, "backward", blueprint_.layers[i].name);
      dy = layers_[i]->backward_input(stream, micro, dy, activations[i]);
      layers_[i]->backward_weight(stream, micro, activations[i]);
    }
    params_.after(stream, Pass::Backward, i);
  }
}

Tensor Transformer::loss(Stream& stream, const Micro& micro) {
  params_.begin_evaluation();
  Tensor x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Saved saved;
    x = run_forward(stream, micro, i, x, saved);
  }
  return x;
}

Tensor Transformer::logits(Stream& stream, const Micro& micro, Rows rows) {
  params_.begin_evaluation();
  const size_t head = layers_.size() - 1;
  Tensor x;
  for (size_t i = 0; i < head; ++i) {
    Saved saved;
    x = run_forward(stream, micro, i, x, saved);
  }
  params_.before(stream, Pass::Forward, head);
  Tensor logits = head_->logits(stream, rows == Rows::All ? x : last_rows(stream, micro, x));
  params_.after(stream, Pass::Forward, head);
  return logits;
}

Tensor Transformer::last_rows(Stream& stream, const Micro& micro, const Tensor& x) const {
  Tensor last = activation(stream, x, {micro.batch, x.dim(1)});
  for (int64_t row = 0; row < micro.batch; ++row) {
    Tensor to = last.slice(row, row + 1);
    copy(stream, to, x.slice((row + 1) * micro.seq - 1, (row + 1) * micro.seq));
  }
  return last;
}

KvCache Transformer::make_cache(Stream& stream, int64_t batch, int64_t capacity) const {
  const ModelConfig& model = blueprint_.model;
  const Shape shape{batch, model.kv_heads, capacity, model.head_dim};
  KvCache cache;
  for (int64_t i = 0; i < model.layers; ++i) {
    cache.keys.push_back(stream.arena().allocate(Category::Activations, options_.dtype, shape));
    cache.values.push_back(stream.arena().allocate(Category::Activations, options_.dtype, shape));
  }
  return cache;
}

}  // namespace sextant

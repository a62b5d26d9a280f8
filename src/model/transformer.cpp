#include "model/transformer.h"

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
                         const TransformerOptions& options)
    : blueprint_(blueprint), options_(options) {
  make_params(stream);
  const ModelConfig& model = blueprint_.model;
  if (model.family != Family::Gpt2) {
    const Shape shape{model.seq, model.head_dim / 2};
    rope_.cos = stream.arena().allocate(Category::Workspace, options_.dtype, shape);
    rope_.sin = stream.arena().allocate(Category::Workspace, options_.dtype, shape);
    rope_table(stream, rope_.cos, rope_.sin, frequencies_of(model));
  }
  make_layers();
}

void Transformer::make_params(Stream& stream) {
  for (const LayerSpec& layer : blueprint_.layers) {
    for (const ParamSpec& spec : layer.params) {
      Param param;
      param.name = spec.name;
      param.decay = spec.decay;
      param.valid_rows = spec.valid_rows;
      const Shape shape{std::span<const int64_t>(spec.shape)};
      param.value = stream.arena().allocate(Category::Weights, options_.dtype, shape);
      if (options_.gradients)
        param.grad = stream.arena().allocate(Category::Gradients, options_.dtype, shape);
      params_.push_back(std::move(param));
    }
  }
}

Param* Transformer::find(const std::string& name) {
  for (Param& param : params_)
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
  size_t index = 0;
  for (const LayerSpec& layer : blueprint_.layers) {
    for (const ParamSpec& spec : layer.params) {
      Param& param = params_[index++];
      if (spec.init == Init::Normal) {
        if (spec.valid_rows < spec.shape[0]) fill_zero(stream, param.value);
        Tensor valid = param.value.slice(0, spec.valid_rows);
        fill_normal(stream, valid, seed, spec.name, spec.std, 0);
      } else {
        fill_constant(stream, param.value, spec.init == Init::Ones ? 1 : 0);
      }
    }
  }
}

void Transformer::start_step() {
  for (Param& param : params_) param.start_step();
}

Tensor Transformer::forward(Stream& stream, const Micro& micro, Activations& activations) {
  Tensor x;
  for (size_t i = 0; i < layers_.size(); ++i)
    x = layers_[i]->forward(stream, micro, x, activations[i]);
  return x;
}

void Transformer::backward(Stream& stream, const Micro& micro, Activations& activations) {
  Tensor dy;
  for (size_t i = layers_.size(); i-- > 0;) {
    dy = layers_[i]->backward_input(stream, micro, dy, activations[i]);
    layers_[i]->backward_weight(stream, micro, activations[i]);
  }
}

Tensor Transformer::loss(Stream& stream, const Micro& micro) {
  Tensor x;
  for (const std::unique_ptr<Layer>& layer : layers_) {
    Saved saved;
    x = layer->forward(stream, micro, x, saved);
  }
  return x;
}

Tensor Transformer::logits(Stream& stream, const Micro& micro, Rows rows) {
  Tensor x;
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    Saved saved;
    x = layers_[i]->forward(stream, micro, x, saved);
  }
  if (rows == Rows::All) return head_->logits(stream, x);
  Tensor last = activation(stream, x, {micro.batch, x.dim(1)});
  for (int64_t row = 0; row < micro.batch; ++row) {
    Tensor to = last.slice(row, row + 1);
    copy(stream, to, x.slice((row + 1) * micro.seq - 1, (row + 1) * micro.seq));
  }
  return head_->logits(stream, last);
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

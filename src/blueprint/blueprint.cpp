#include "blueprint/blueprint.h"

#include <cmath>

namespace sextant {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

// Builds the parameters of one layer; every name begins with the layer's.
class LayerMaker {
 public:
  LayerMaker(const ModelConfig& model, LayerKind kind, const std::string& name)
      : model_(model), layer_{kind, name, {}, 0} {}

  void matrix(const std::string& name, int64_t out, int64_t in, double std) {
    layer_.params.push_back(
        {layer_.name + "." + name + ".weight", {out, in}, out, Init::Normal, std, true});
    layer_.matmul_params += out * in;
  }
  // A table that is looked up, not multiplied with.
  void table(const std::string& name, int64_t rows, int64_t valid_rows) {
    layer_.params.push_back({layer_.name + "." + name + ".weight",
                             {rows, model_.hidden},
                             valid_rows,
                             Init::Normal,
                             model_.init_std,
                             true});
  }
  void vector(const std::string& name, int64_t size, Init init) {
    layer_.params.push_back({layer_.name + "." + name, {size}, size, init, 0, false});
  }
  void bias(const std::string& name, int64_t size) {
    if (has_bias()) vector(name + ".bias", size, Init::Zeros);
  }
  void norm(const std::string& name) {
    vector(name + ".weight", model_.hidden, Init::Ones);
    if (has_bias()) vector(name + ".bias", model_.hidden, Init::Zeros);
  }
  bool has_bias() const { return model_.family == Family::Gpt2; }
  LayerSpec& layer() { return layer_; }

 private:
  const ModelConfig& model_;
  LayerSpec layer_;
};

LayerSpec embedding_layer(const ModelConfig& model, int64_t padded_vocab) {
  LayerMaker make(model, LayerKind::Embedding, "embedding");
  make.table("tokens", padded_vocab, model.vocab);
  if (model.family == Family::Gpt2) make.table("positions", model.seq, model.seq);
  return make.layer();
}

LayerSpec attention_layer(const ModelConfig& model, const std::string& name, double out_std) {
  LayerMaker make(model, LayerKind::Attention, name);
  const int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  make.norm("norm");
  make.matrix("qkv", qkv, model.hidden, model.init_std);
  make.bias("qkv", qkv);
  if (model.family == Family::Qwen3) {
    make.vector("q_norm.weight", model.head_dim, Init::Ones);
    make.vector("k_norm.weight", model.head_dim, Init::Ones);
  }
  make.matrix("out", model.hidden, model.heads * model.head_dim, out_std);
  make.bias("out", model.hidden);
  return make.layer();
}

LayerSpec mlp_layer(const ModelConfig& model, const std::string& name, double out_std) {
  LayerMaker make(model, LayerKind::Mlp, name);
  make.norm("norm");
  const bool gated = model.family != Family::Gpt2;
  make.matrix(gated ? "gate_up" : "up", gated ? 2 * model.ffn : model.ffn, model.hidden,
              model.init_std);
  make.bias("up", model.ffn);
  make.matrix("down", model.hidden, model.ffn, out_std);
  make.bias("down", model.hidden);
  return make.layer();
}

LayerSpec head_layer(const ModelConfig& model, int64_t padded_vocab) {
  LayerMaker make(model, LayerKind::Head, "head");
  make.norm("norm");
  LayerSpec& layer = make.layer();
  if (model.tied) {
    layer.matmul_params += model.vocab * model.hidden;
  } else {
    make.table("output", padded_vocab, model.vocab);
    layer.matmul_params += model.vocab * model.hidden;
  }
  return layer;
}

}  // namespace

int64_t ParamSpec::elements() const {
  return product(shape);
}

int64_t ParamSpec::valid_elements() const {
  return product(shape) / shape[0] * valid_rows;
}

int64_t Blueprint::parameters() const {
  int64_t count = 0;
  for (const LayerSpec& layer : layers)
    for (const ParamSpec& param : layer.params) count += param.valid_elements();
  return count;
}

int64_t Blueprint::stored_parameters() const {
  int64_t count = 0;
  for (const LayerSpec& layer : layers)
    for (const ParamSpec& param : layer.params) count += param.elements();
  return count;
}

double Blueprint::flops_per_token(int64_t seq) const {
  double matmul = 0;
  for (const LayerSpec& layer : layers) matmul += static_cast<double>(layer.matmul_params);
  const double width = static_cast<double>(model.heads * model.head_dim);
  return 6 * matmul + 6 * static_cast<double>(model.layers) * width * static_cast<double>(seq);
}

std::string flops_formula() {
  return "6 x matmul parameters + 6 x layers x attention width x sequence";
}

Blueprint make_blueprint(const ModelConfig& model) {
  Blueprint blueprint;
  blueprint.model = model;
  blueprint.padded_vocab = (model.vocab + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple;
  // Projections into the residual stream start smaller, so that its variance does not grow with
  // depth.
  const double out_std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers));
  blueprint.layers.push_back(embedding_layer(model, blueprint.padded_vocab));
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i);
    blueprint.layers.push_back(attention_layer(model, prefix + ".attention", out_std));
    blueprint.layers.push_back(mlp_layer(model, prefix + ".mlp", out_std));
  }
  blueprint.layers.push_back(head_layer(model, blueprint.padded_vocab));
  return blueprint;
}

}  // namespace sextant

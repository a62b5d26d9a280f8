#include "blueprint/blueprint.h"

#include <cmath>

#include "base/error.h"

namespace sextant {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

// How a parameter is sharded over tensor parallel ranks.
//   None     replicated
//   Rows     equal parts of the rows
//   GateUp   equal parts of the gate rows and of the up rows
//   Heads    whole heads; key-value heads are replicated if there are fewer than ranks
//   Columns  equal parts of the columns
enum class Cut { None, Rows, GateUp, Heads, Columns };

// When the gradients of a replicated parameter must be summed over tensor parallel ranks.
enum class Partial { Never, OwnTokens, Always };

// Builds the parameters of one layer; every name starts with the layer's.
class LayerMaker {
 public:
  LayerMaker(const ModelConfig& model, const TensorPart& tensor, LayerKind kind,
             const std::string& name)
      : model_(model), features_(features_of(model)), tensor_(tensor), layer_{kind, name, {}, 0} {}

  void matrix(const std::string& name, int64_t out, int64_t in, double std, Cut cut,
              Partial partial = Partial::Never) {
    add({.name = name + ".weight", .whole = {out, in}, .valid_rows = out, .std = std}, cut,
        partial);
    layer_.matmul_params += out * in;
  }
  // One matrix of every expert, one below the other. A token uses some of the experts. Etp ranks
  // share out each of them as `cut` says.
  void expert_matrices(const std::string& name, int64_t out, int64_t in, double std, Cut cut,
                       const ExpertPart& part) {
    matrix("experts." + name, model_.experts * out, in, std, Cut::None, Partial::OwnTokens);
    if (!part.is_whole()) keep_experts(layer_.params.back(), cut, part);
    layer_.matmul_params -= (model_.experts - model_.experts_per_token) * out * in;
  }
  // A lookup table, not a factor of a GEMM.
  void table(const std::string& name, int64_t rows, int64_t valid_rows, Cut cut) {
    add({.name = name + ".weight",
         .whole = {rows, model_.hidden},
         .valid_rows = valid_rows,
         .std = model_.init_std},
        cut, Partial::OwnTokens);
  }
  void vector(const std::string& name, int64_t size, Init init, Cut cut, Partial partial) {
    add({.name = name, .whole = {size}, .valid_rows = size, .init = init, .decay = false}, cut,
        partial);
  }
  void bias(const std::string& name, int64_t size, Cut cut) {
    vector(name + ".bias", size, Init::Zeros, cut, Partial::Never);
  }
  void norm(const std::string& name) {
    vector(name + ".weight", model_.hidden, Init::Ones, Cut::None, Partial::OwnTokens);
    if (features_.layer_norm)
      vector(name + ".bias", model_.hidden, Init::Zeros, Cut::None, Partial::OwnTokens);
  }
  const ModelFeatures& features() const { return features_; }
  LayerSpec& layer() { return layer_; }

 private:
  void keep_experts(ParamSpec& spec, Cut cut, const ExpertPart& part) const {
    spec.is_expert = true;
    spec.fragment.rows = {even_part(spec.whole[0], part.degree, part.rank)};
    if (part.etp > 1 && cut == Cut::Columns)
      spec.fragment.columns = even_part(spec.whole[1], part.etp, part.etp_rank);
    if (part.etp > 1 && cut == Cut::GateUp) {
      const Range own = even_part(model_.experts, part.degree, part.rank);
      const Range units = even_part(model_.expert_ffn, part.etp, part.etp_rank);
      spec.fragment.rows.clear();
      for (int64_t half = 2 * own.begin; half < 2 * own.end; ++half)  // gates, ups
        spec.fragment.rows.push_back(
            {half * model_.expert_ffn + units.begin, half * model_.expert_ffn + units.end});
    }
    spec.shape = {spec.fragment.row_count(), spec.fragment.columns.size()};
    spec.shared = {};
    spec.copies = 1;
    spec.is_partial = false;
  }

  void add(ParamSpec spec, Cut cut, Partial partial = Partial::Never) {
    spec.name = layer_.name + "." + spec.name;
    const int64_t columns = spec.whole.size() > 1 ? spec.whole[1] : 1;
    spec.fragment = whole_fragment(spec.whole[0], columns);
    spec.fragment.rows = rows_of(cut, spec.whole[0]);
    if (cut == Cut::Columns)
      spec.fragment.columns = even_part(columns, tensor_.degree, tensor_.rank);
    spec.shape = spec.whole;
    spec.shape[0] = spec.fragment.row_count();
    if (spec.whole.size() > 1) spec.shape[1] = spec.fragment.columns.size();
    if (tensor_.degree > 1 && cut == Cut::None) {
      spec.shared = {0, spec.elements()};
      spec.copies = tensor_.degree;
      spec.is_partial =
          partial == Partial::Always || (partial == Partial::OwnTokens && tensor_.sequence);
    }
    if (tensor_.degree > model_.kv_heads && cut == Cut::Heads) {  // replicated key and value rows
      const int64_t width = spec.fragment.columns.size();
      spec.shared = {spec.fragment.rows[0].size() * width, spec.elements()};
      spec.copies = tensor_.degree / static_cast<int>(model_.kv_heads);
      spec.is_partial = true;
    }
    layer_.params.push_back(std::move(spec));
  }

  std::vector<Range> rows_of(Cut cut, int64_t rows) const {
    const int ranks = tensor_.degree, rank = tensor_.rank;
    if (ranks == 1 || cut == Cut::None || cut == Cut::Columns) return {{0, rows}};
    if (cut == Cut::GateUp) {
      const Range half = even_part(rows / 2, ranks, rank);
      return {half, {half.begin + rows / 2, half.end + rows / 2}};
    }
    if (cut == Cut::Rows || ranks <= model_.kv_heads) return {even_part(rows, ranks, rank)};
    // This rank has some of the queries of one key-value head, then its key and value.
    const int copies = ranks / static_cast<int>(model_.kv_heads);
    const int64_t queries = model_.heads / model_.kv_heads * model_.head_dim;
    const int64_t first = (queries + 2 * model_.head_dim) * (rank / copies);
    const Range own = even_part(queries, copies, rank % copies);
    return {{first + own.begin, first + own.end},
            {first + queries, first + queries + 2 * model_.head_dim}};
  }

  const ModelConfig& model_;
  ModelFeatures features_;
  const TensorPart& tensor_;
  LayerSpec layer_;
};

LayerSpec embedding_layer(const ModelConfig& model, const TensorPart& tensor,
                          int64_t padded_vocab) {
  LayerMaker make(model, tensor, LayerKind::Embedding, "embedding");
  make.table("tokens", padded_vocab, model.vocab, Cut::Rows);
  if (!make.features().rotary) make.table("positions", model.seq, model.seq, Cut::None);
  return make.layer();
}

LayerSpec attention_layer(const ModelConfig& model, const TensorPart& tensor,
                          const std::string& name, double out_std) {
  LayerMaker make(model, tensor, LayerKind::Attention, name);
  const int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  make.norm("norm");
  make.matrix("qkv", qkv, model.hidden, model.init_std, Cut::Heads);
  if (make.features().qkv_bias) make.bias("qkv", qkv, Cut::Heads);
  if (make.features().head_norm) {
    make.vector("q_norm.weight", model.head_dim, Init::Ones, Cut::None, Partial::Always);
    make.vector("k_norm.weight", model.head_dim, Init::Ones, Cut::None, Partial::Always);
  }
  make.matrix("out", model.hidden, model.heads * model.head_dim, out_std, Cut::Columns);
  if (make.features().out_bias) make.bias("out", model.hidden, Cut::None);
  return make.layer();
}

// Latents are of a rank's own tokens; their up projections are sharded by heads.
LayerSpec latent_attention_layer(const ModelConfig& model, const TensorPart& tensor,
                                 const std::string& name, double out_std) {
  LayerMaker make(model, tensor, LayerKind::Attention, name);
  const auto latent = [&](const std::string& down, int64_t rank) {
    make.matrix(down, rank, model.hidden, model.init_std, Cut::None, Partial::OwnTokens);
    make.vector(down + "_norm.weight", rank, Init::Ones, Cut::None, Partial::OwnTokens);
  };
  const int64_t queries = model.heads * model.head_dim, rope = model.qk_rope_head_dim;
  const int64_t keys = model.heads * (model.head_dim - rope + model.v_head_dim);
  make.norm("norm");
  if (model.q_lora_rank > 0) latent("q_a", model.q_lora_rank);
  make.matrix("q_b", queries, model.q_lora_rank > 0 ? model.q_lora_rank : model.hidden,
              model.init_std, Cut::Heads);
  latent("kv_a", model.kv_lora_rank);
  make.matrix("k_rope", rope, model.hidden, model.init_std, Cut::None, Partial::OwnTokens);
  make.matrix("kv_b", keys, model.kv_lora_rank, model.init_std, Cut::Heads);
  make.matrix("out", model.hidden, model.heads * model.v_head_dim, out_std, Cut::Columns);
  return make.layer();
}

LayerSpec mlp_layer(const ModelConfig& model, const TensorPart& tensor, const std::string& name,
                    double out_std) {
  LayerMaker make(model, tensor, LayerKind::Mlp, name);
  make.norm("norm");
  const bool is_gated = make.features().gated, has_bias = make.features().mlp_bias;
  const std::string up = is_gated ? "gate_up" : "up";
  const Cut cut = is_gated ? Cut::GateUp : Cut::Rows;
  make.matrix(up, (is_gated ? 2 : 1) * model.ffn, model.hidden, model.init_std, cut);
  if (has_bias) make.bias(up, (is_gated ? 2 : 1) * model.ffn, cut);
  make.matrix("down", model.hidden, model.ffn, out_std, Cut::Columns);
  if (has_bias) make.bias("down", model.hidden, Cut::None);
  return make.layer();
}

// Tensor parallel ranks have their own tokens here (sequence parallel); only etp divides an expert.
// Shared experts are sharded over tp as an MLP is.
LayerSpec experts_layer(const ModelConfig& model, const TensorPart& tensor, const ExpertPart& part,
                        const std::string& name, double out_std) {
  LayerMaker make(model, tensor, LayerKind::Experts, name);
  make.norm("norm");
  make.matrix("router", model.experts, model.hidden, model.init_std, Cut::None, Partial::OwnTokens);
  if (model.router == RouterKind::Sigmoid) {
    const Init init = model.router_bias_std > 0 ? Init::Normal : Init::Zeros;
    make.vector("router.bias", model.experts, init, Cut::None, Partial::OwnTokens);
    make.layer().params.back().std = model.router_bias_std;
    make.layer().params.back().router_state = RouterState::Bias;
  }
  if (model.router_load) {
    make.vector("router.load", model.experts, Init::Zeros, Cut::None, Partial::OwnTokens);
    make.layer().params.back().router_state = RouterState::Load;
  }
  make.expert_matrices("gate_up", 2 * model.expert_ffn, model.hidden, model.init_std, Cut::GateUp,
                       part);
  make.expert_matrices("down", model.hidden, model.expert_ffn, out_std, Cut::Columns, part);
  if (model.shared_experts > 0) {
    const int64_t shared = model.shared_experts * model.expert_ffn;
    make.matrix("shared.gate_up", 2 * shared, model.hidden, model.init_std, Cut::GateUp);
    make.matrix("shared.down", model.hidden, shared, out_std, Cut::Columns);
  }
  return make.layer();
}

LayerSpec head_layer(const ModelConfig& model, const TensorPart& tensor, int64_t padded_vocab) {
  LayerMaker make(model, tensor, LayerKind::Head, "head");
  make.norm("norm");
  if (!model.tied) make.table("output", padded_vocab, model.vocab, Cut::Rows);
  make.layer().matmul_params += model.vocab * model.hidden;
  return make.layer();
}

}  // namespace

int64_t ParamSpec::elements() const {
  return product(shape);
}

int64_t ParamSpec::valid_elements() const {
  return product(whole) / whole[0] * valid_rows;
}

int64_t Blueprint::parameters() const {
  int64_t count = 0;
  for (const LayerSpec& layer : layers)
    for (const ParamSpec& param : layer.params)
      if (param.router_state != RouterState::Load) count += param.valid_elements();
  return count;
}

int64_t Blueprint::active_parameters() const {
  const int64_t idle = model.experts - model.experts_per_token;
  return parameters() - expert_layers() * idle * 3 * model.hidden * model.expert_ffn;
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
  // The mean of the widths of keys and of values.
  const int64_t values = features.latent ? model.v_head_dim : model.head_dim;
  const double width = static_cast<double>(model.heads * (model.head_dim + values)) / 2;
  // Twice the mean number of keys that a query attends to.
  double keys = static_cast<double>(seq);
  if (model.sliding_window > 0 && model.sliding_window < seq) {
    const double window = static_cast<double>(model.sliding_window);
    keys = window * (2 - window / keys);
  }
  return 6 * matmul + 6 * static_cast<double>(model.layers) * width * keys;
}

std::string flops_formula(const ModelConfig& model) {
  return std::string(features_of(model).experts ? "6 x active matmul parameters"
                                                : "6 x matmul parameters") +
         " + 6 x layers x attention width x " +
         (window_of(model) > 0 ? "window x (2 - window / sequence)" : "sequence");
}

int64_t window_of(const ModelConfig& model) {
  return model.sliding_window < model.seq ? model.sliding_window : 0;
}

namespace {

ModelFeatures features_of(Family family) {
  switch (family) {
    case Family::Gpt2:
      return {.layer_norm = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true};
    case Family::Llama:
      return {.gated = true, .rotary = true};
    case Family::Mistral:
      return {.gated = true, .rotary = true};
    case Family::Qwen2:
      return {.qkv_bias = true, .gated = true, .rotary = true};
    case Family::Qwen3:
      return {.gated = true, .rotary = true, .head_norm = true};
    case Family::Mixtral:
      return {.gated = true, .rotary = true, .experts = true};
    case Family::Qwen3Moe:
      return {.gated = true, .rotary = true, .head_norm = true, .experts = true};
    case Family::DeepseekMoe:
      return {.gated = true, .rotary = true, .experts = true, .latent = true};
  }
  SXT_FAIL(Internal, "a family without features");
}

}  // namespace

ModelFeatures features_of(const ModelConfig& model) {
  ModelFeatures features = features_of(model.family);
  features.qkv_bias |= model.attention_bias;
  features.out_bias |= model.attention_bias;
  features.mlp_bias |= model.mlp_bias;
  return features;
}

Blueprint make_blueprint(const ModelConfig& model, const TensorPart& tensor,
                         const ExpertPart& experts) {
  Blueprint blueprint;
  blueprint.model = model;
  blueprint.features = features_of(model);
  blueprint.tensor = tensor;
  blueprint.experts = experts;
  const int64_t multiple = kVocabMultiple * tensor.degree;
  blueprint.padded_vocab = (model.vocab + multiple - 1) / multiple * multiple;
  // Projections into the residual stream have a smaller init std, so that its variance does not
  // grow with depth.
  const double out_std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers));
  blueprint.layers.push_back(embedding_layer(model, tensor, blueprint.padded_vocab));
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i);
    blueprint.layers.push_back(
        (blueprint.features.latent ? latent_attention_layer : attention_layer)(
            model, tensor, prefix + ".attention", out_std));
    blueprint.layers.push_back(blueprint.features.experts && i >= model.dense_layers
                                   ? experts_layer(model, tensor, experts, prefix + ".moe", out_std)
                                   : mlp_layer(model, tensor, prefix + ".mlp", out_std));
  }
  blueprint.layers.push_back(head_layer(model, tensor, blueprint.padded_vocab));
  return blueprint;
}

}  // namespace sextant

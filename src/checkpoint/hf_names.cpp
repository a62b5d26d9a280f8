#include "checkpoint/hf_names.h"

#include <array>
#include <optional>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

// Our name suffix of a parameter and theirs.
struct NamePair {
  std::string_view ours, theirs;
};
constexpr std::array<NamePair, 10> kGpt2Layer = {{
    {"attention.norm.weight", "ln_1.weight"},
    {"attention.norm.bias", "ln_1.bias"},
    {"attention.out.weight", "attn.c_proj.weight"},
    {"attention.out.bias", "attn.c_proj.bias"},
    {"mlp.norm.weight", "ln_2.weight"},
    {"mlp.norm.bias", "ln_2.bias"},
    {"mlp.up.weight", "mlp.c_fc.weight"},
    {"mlp.up.bias", "mlp.c_fc.bias"},
    {"mlp.down.weight", "mlp.c_proj.weight"},
    {"mlp.down.bias", "mlp.c_proj.bias"},
}};
constexpr std::array<NamePair, 15> kLlamaLayer = {{
    {"attention.norm.weight", "input_layernorm.weight"},
    {"attention.q_norm.weight", "self_attn.q_norm.weight"},
    {"attention.k_norm.weight", "self_attn.k_norm.weight"},
    {"attention.out.weight", "self_attn.o_proj.weight"},
    {"attention.out.bias", "self_attn.o_proj.bias"},
    {"mlp.norm.weight", "post_attention_layernorm.weight"},
    {"mlp.down.weight", "mlp.down_proj.weight"},
    {"mlp.down.bias", "mlp.down_proj.bias"},
    {"moe.norm.weight", "post_attention_layernorm.weight"},
    {"moe.router.bias", "mlp.gate.e_score_correction_bias"},
    {"moe.shared.down.weight", "mlp.shared_experts.down_proj.weight"},
    {"attention.q_a.weight", "self_attn.q_a_proj.weight"},
    {"attention.q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
    {"attention.kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
    {"attention.kv_b.weight", "self_attn.kv_b_proj.weight"},
}};
constexpr std::array<NamePair, 5> kGpt2Ends = {{
    {"embedding.tokens.weight", "wte.weight"},
    {"embedding.positions.weight", "wpe.weight"},
    {"head.norm.weight", "ln_f.weight"},
    {"head.norm.bias", "ln_f.bias"},
    {"head.output.weight", "lm_head.weight"},
}};
constexpr std::array<NamePair, 3> kLlamaEnds = {{
    {"embedding.tokens.weight", "embed_tokens.weight"},
    {"head.norm.weight", "norm.weight"},
    {"head.output.weight", "lm_head.weight"},
}};
constexpr std::string_view kHead = "lm_head.weight";

class Mapper {
 public:
  Mapper(const ModelConfig& model, std::string_view prefix) : model_(model), prefix_(prefix) {}

  void add(const ParamSpec& param) {
    if (!param.name.starts_with("layers.")) {
      is_gpt2() ? add_named(param, kGpt2Ends, "", param.name)
                : add_named(param, kLlamaEnds, "", param.name);
      return;
    }
    const size_t dot = param.name.find('.', 7);
    const std::string_view ending = std::string_view(param.name).substr(dot + 1);
    const std::string index = param.name.substr(7, dot - 7);
    const std::string layer = (is_gpt2() ? "h." : "layers.") + index + ".";
    if (ending == "moe.router.weight") {
      add_tensor(param, layer + expert_block() + "gate.weight",
                 {{param.name, 0, 0, model_.experts}});
    } else if (ending == "attention.q_b.weight") {
      add_queries(param, layer);
    } else if (ending == "attention.kv_a.weight") {
      add_latent_keys(param, layer);
    } else if (ending == "attention.k_rope.weight") {
      return;  // in the tensor of kv_a
    } else if (ending == "moe.router.load") {
      return;  // state of a training
    } else if (ending.starts_with("attention.qkv.")) {
      add_qkv(param, layer, ending.substr(14));
    } else if (ending.starts_with("mlp.gate_up.")) {
      const std::string_view kind = ending.substr(12);
      add_tensor(param, concat(layer, "mlp.gate_proj.", kind), {{param.name, 0, 0, model_.ffn}});
      add_tensor(param, concat(layer, "mlp.up_proj.", kind),
                 {{param.name, model_.ffn, 0, model_.ffn}});
    } else if (ending == "moe.shared.gate_up.weight") {
      const int64_t width = model_.shared_experts * model_.expert_ffn;
      const std::string shared = layer + "mlp.shared_experts.";
      add_tensor(param, shared + "gate_proj.weight", {{param.name, 0, 0, width}});
      add_tensor(param, shared + "up_proj.weight", {{param.name, width, 0, width}});
    } else if (ending.starts_with("moe.experts.")) {
      add_experts(param, layer, ending == "moe.experts.down.weight");
    } else {
      is_gpt2() ? add_named(param, kGpt2Layer, layer, ending)
                : add_named(param, kLlamaLayer, layer, ending);
    }
  }

  std::vector<HfTensor> take() { return std::move(tensors_); }

 private:
  bool is_gpt2() const { return model_.family == Family::Gpt2; }

  bool is_mixtral() const { return model_.family == Family::Mixtral; }
  std::string expert_block() const { return is_mixtral() ? "block_sparse_moe." : "mlp."; }

  void add_experts(const ParamSpec& param, const std::string& layer, bool is_down) {
    const int64_t ffn = model_.expert_ffn;
    for (int64_t expert = 0; expert < model_.experts; ++expert) {
      const std::string name = concat(layer, expert_block(), "experts.", expert, ".");
      const auto add = [&](const char* mixtral, const char* qwen, int64_t row, int64_t rows) {
        add_tensor(param, name + (is_mixtral() ? mixtral : qwen), {{param.name, row, 0, rows}});
      };
      if (is_down) {
        add("w2.weight", "down_proj.weight", expert * model_.hidden, model_.hidden);
      } else {
        add("w1.weight", "gate_proj.weight", expert * 2 * ffn, ffn);
        add("w3.weight", "up_proj.weight", (expert * 2 + 1) * ffn, ffn);
      }
    }
  }

  template <class Table>
  void add_named(const ParamSpec& param, const Table& table, const std::string& layer,
                 std::string_view ours) {
    for (const NamePair& pair : table)
      if (pair.ours == ours)
        return add_tensor(param, concat(layer, pair.theirs),
                          {{param.name, 0, 0, param.valid_rows}});
    SXT_FAIL(Internal, "parameter ", param.name, " has no Hugging Face name");
  }

  // Rotated rows: ours rotate the pairs (i, i + half), theirs (2i, 2i + 1).
  void rotated_pieces(std::vector<HfPiece>& out, const std::string& param, int64_t ours,
                      int64_t theirs) const {
    const int64_t half = model_.qk_rope_head_dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      out.push_back({param, ours + i, theirs + 2 * i, 1});
      out.push_back({param, ours + half + i, theirs + 2 * i + 1, 1});
    }
  }

  void add_queries(const ParamSpec& param, const std::string& layer) {
    std::vector<HfPiece> pieces;
    const int64_t nope = model_.head_dim - model_.qk_rope_head_dim;
    for (int64_t head = 0; head < model_.heads; ++head) {
      const int64_t row = head * model_.head_dim;
      pieces.push_back({param.name, row, row, nope});
      rotated_pieces(pieces, param.name, row + nope, row + nope);
    }
    const char* name = model_.q_lora_rank > 0 ? "q_b_proj.weight" : "q_proj.weight";
    add_tensor(param, concat(layer, "self_attn.", name), std::move(pieces));
  }

  // One tensor of two parameters: the latent of keys and values, then the rotated columns of keys.
  void add_latent_keys(const ParamSpec& param, const std::string& layer) {
    const std::string prefix = param.name.substr(0, param.name.rfind("kv_a."));
    std::vector<HfPiece> pieces = {{param.name, 0, 0, model_.kv_lora_rank}};
    rotated_pieces(pieces, prefix + "k_rope.weight", 0, model_.kv_lora_rank);
    add_tensor(param, layer + "self_attn.kv_a_proj_with_mqa.weight", std::move(pieces));
  }

  // part 0, 1, 2: the queries, keys, values. Their rows begin at `first` in the tensor.
  void qkv_pieces(std::vector<HfPiece>& out, const std::string& param, int part,
                  int64_t first) const {
    const int64_t group = model_.heads / model_.kv_heads, dim = model_.head_dim;
    const int64_t rows = (part == 0 ? group : 1) * dim;
    const int64_t offset = part == 0 ? 0 : (group + part - 1) * dim;
    for (int64_t head = 0; head < model_.kv_heads; ++head)
      out.push_back({param, head * (group + 2) * dim + offset, first + head * rows, rows});
  }

  void add_qkv(const ParamSpec& param, const std::string& layer, std::string_view kind) {
    static constexpr std::array<std::string_view, 3> kParts = {"q_proj.", "k_proj.", "v_proj."};
    std::vector<HfPiece> fused;
    for (int part = 0; part < 3; ++part) {
      if (is_gpt2()) {
        qkv_pieces(fused, param.name, part, part * model_.hidden);
        continue;
      }
      std::vector<HfPiece> pieces;
      qkv_pieces(pieces, param.name, part, 0);
      add_tensor(param, concat(layer, "self_attn.", kParts[static_cast<size_t>(part)], kind),
                 std::move(pieces));
    }
    if (is_gpt2()) add_tensor(param, concat(layer, "attn.c_attn.", kind), std::move(fused));
  }

  void add_tensor(const ParamSpec& param, const std::string& name, std::vector<HfPiece> pieces) {
    HfTensor tensor;
    tensor.name = name == kHead ? name : prefix_ + name;
    int64_t rows = 0;
    for (const HfPiece& piece : pieces) rows += piece.rows;
    tensor.shape = param.shape;
    tensor.shape[0] = rows;
    // Embeddings are looked up by row in both formats; only GEMM weights are transposed.
    tensor.is_transposed =
        is_gpt2() && param.shape.size() == 2 && param.name.starts_with("layers.");
    if (tensor.is_transposed) std::swap(tensor.shape[0], tensor.shape[1]);
    tensor.pieces = std::move(pieces);
    tensors_.push_back(std::move(tensor));
  }

  const ModelConfig& model_;
  std::string prefix_;
  std::vector<HfTensor> tensors_;
};

}  // namespace

std::string_view hf_prefix(Family family) {
  return family == Family::Gpt2 ? "transformer." : "model.";
}

std::string_view hf_marker(Family family) {
  return family == Family::Gpt2 ? kGpt2Ends[0].theirs : kLlamaEnds[0].theirs;
}

std::vector<HfTensor> hf_tensors(const Blueprint& blueprint, std::string_view prefix) {
  Mapper mapper(blueprint.model, prefix);
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& param : layer.params) mapper.add(param);
  return mapper.take();
}

std::string_view hf_left_out(std::string_view name, std::string_view prefix, int64_t layers) {
  if (name.find(".self_attn.indexer.") != std::string_view::npos)
    return "the indexer of sparse attention: here every query sees all keys before it";
  const std::string layer = concat(prefix, "layers.");
  if (!name.starts_with(layer)) return {};
  const std::string_view rest = name.substr(layer.size());
  const std::optional<int64_t> index = parse_int(rest.substr(0, rest.find('.')));
  return index && *index >= layers ? "a layer of multi-token prediction" : "";
}

bool is_hf_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace sextant

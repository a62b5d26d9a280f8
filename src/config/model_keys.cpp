// The settings of [model].
#include <utility>

#include "base/parse.h"
#include "config/key_makers.h"
#include "config/model_presets.h"
#include "config/other_names.h"

namespace sextant {
namespace {

constexpr IntRange kModelSize{1, kMaxSize};
constexpr int64_t kMostShared = 1024;  // shared experts

bool is_rope(const Config& config) {
  return config.model.family != Family::Gpt2;
}

bool is_of_experts(const Config& config) {
  return has_experts(config.model.family);
}

bool is_latent(const Config& config) {
  return config.model.family == Family::DeepseekMoe;
}

// Where Hugging Face has the key of this name.
bool may_have_attention_bias(const Config& config) {
  const Family family = config.model.family;
  return family == Family::Llama || family == Family::Qwen3 || family == Family::Qwen3Moe;
}

bool may_have_mlp_bias(const Config& config) {
  return config.model.family == Family::Llama;
}

bool may_have_window(const Config& config) {
  const Family family = config.model.family;
  return family == Family::Mistral || family == Family::Qwen2 || family == Family::Qwen3 ||
         family == Family::Mixtral || family == Family::Qwen3Moe;
}

bool is_rope_scaled(const Config& config) {
  return is_rope(config) && config.model.rope_scaling.factor != 1;
}

bool is_scaled_as(const Config& config, RopeType type) {
  return is_rope_scaled(config) && config.model.rope_scaling.type == type;
}

// A size that has no default: it comes from a preset or a Hugging Face directory, or must be given.
Key size_key(std::string name, auto field, std::string help) {
  return falls_back_to("from the preset",
                       int_key(std::move(name), field, kModelSize, std::move(help)));
}

// A size that not every family has: the others have 0.
Key absent_or(std::string name, auto field, std::string help) {
  Key key = int_key(std::move(name), field, kModelSize, std::move(help));
  key.set = [set = key.set, field](Config& config, const Value& value) {
    if (value != Value(int64_t{0})) return set(config, value);
    field(config) = 0;
    return std::string();
  };
  return key;
}

Key preset_key() {
  Key key = text_key("model.preset", SXT_FIELD(model.preset), "the name of a preset",
                     "published model that the sizes come from; other keys of this section replace "
                     "single sizes");
  key.choices = model_preset_names();
  key.set = [set = key.set](Config& config, const Value& value) {
    const std::string* name = std::get_if<std::string>(&value);
    if (name == nullptr || name->empty() || model_preset(*name)) return set(config, value);
    const std::string near = did_you_mean_preset(*name);
    return "takes the name of a preset" +
           (near.empty() ? std::string("; `sextant config models` lists them") : near);
  };
  return falls_back_to("none", key);
}

void add_model_source(std::vector<Key>& keys) {
  keys.push_back(preset_key());
  keys.push_back(
      falls_back_to("none", text_key("model.hf", SXT_FIELD(model.hf), "a directory",
                                     "Hugging Face directory whose config.json gives the sizes")));
  const auto named = [](Family family) { return Choice<Family>{name_of(family), family}; };
  keys.push_back(choice_key<Family>(
      "model.family", SXT_FIELD(model.family),
      {named(Family::Gpt2), named(Family::Llama), named(Family::Mistral), named(Family::Qwen2),
       named(Family::Qwen3), named(Family::Mixtral), named(Family::Qwen3Moe),
       named(Family::DeepseekMoe)},
      "kind of layers: gpt2 (LayerNorm, learned positions, GELU), llama (RMSNorm, rotary "
      "positions, SwiGLU), mistral (llama with a sliding window), qwen2 (llama with biases of "
      "queries, keys and values), qwen3 (llama "
      "with normalised queries and keys), mixtral (llama with experts), qwen3-moe (qwen3 with "
      "experts), deepseek-moe (multi-head latent attention, experts)"));
}

void add_model_sizes(std::vector<Key>& keys) {
  keys.push_back(falls_back_to("from the preset", int_key("model.layers", SXT_FIELD(model.layers),
                                                          {1, kMaxLayers}, "transformer layers")));
  keys.push_back(size_key("model.hidden", SXT_FIELD(model.hidden),
                          "hidden size: width of the residual stream"));
  keys.push_back(size_key("model.heads", SXT_FIELD(model.heads), "attention heads"));
  keys.push_back(falls_back_to(
      "model.heads", int_key("model.kv_heads", SXT_FIELD(model.kv_heads), kModelSize,
                             "key and value heads, a divisor of heads (grouped-query attention)")));
  keys.push_back(falls_back_to(
      "hidden / heads", int_key("model.head_dim", SXT_FIELD(model.head_dim), {2, kWidestHead},
                                "width of one head, an even number")));
  keys.push_back(only_when(
      "a model.family without experts, or model.dense_layers above 0",
      [](const Config& config) { return !is_of_experts(config) || config.model.dense_layers > 0; },
      falls_back_to("4 hidden (gpt2), 8/3 hidden up to a multiple of 64 (others)",
                    absent_or("model.ffn", SXT_FIELD(model.ffn),
                              "intermediate size of the feed-forward layer"))));
  keys.push_back(falls_back_to("from the preset, 256 for plain bytes",
                               int_key("model.vocab", SXT_FIELD(model.vocab), kModelSize,
                                       "vocabulary size: token ids are 0 to vocab - 1")));
  keys.push_back(size_key("model.seq", SXT_FIELD(model.seq), "sequence length in tokens"));
  keys.push_back(bool_key("model.tied", SXT_FIELD(model.tied),
                          "the output head uses the weights of the token embedding"));
}

void add_attention_details(std::vector<Key>& keys) {
  keys.push_back(
      only_when("model.family = mistral, qwen2, qwen3, mixtral or qwen3-moe", may_have_window,
                absent_or("model.sliding_window", SXT_FIELD(model.sliding_window),
                          "sliding window attention in every layer: tokens that a token attends "
                          "to, itself and those before it; 0 is all")));
  keys.push_back(only_when("model.family = llama, qwen3 or qwen3-moe", may_have_attention_bias,
                           bool_key("model.attention_bias", SXT_FIELD(model.attention_bias),
                                    "biases of queries, keys, values and the output projection of "
                                    "attention (qwen2 has those of the first three)")));
  keys.push_back(only_when("model.family = llama", may_have_mlp_bias,
                           bool_key("model.mlp_bias", SXT_FIELD(model.mlp_bias),
                                    "biases of the three projections of the MLP")));
}

void add_latent_attention(std::vector<Key>& keys) {
  const auto add = [&](Key key) {
    keys.push_back(only_when("model.family = deepseek-moe", is_latent,
                             falls_back_to("from the preset", std::move(key))));
  };
  add(absent_or("model.q_lora_rank", SXT_FIELD(model.q_lora_rank),
                "rank of the latent of queries; 0 projects them from the hidden state"));
  add(absent_or("model.kv_lora_rank", SXT_FIELD(model.kv_lora_rank),
                "rank of the latent of keys and values"));
  add(absent_or("model.qk_rope_head_dim", SXT_FIELD(model.qk_rope_head_dim),
                "columns of head_dim that are rotated, an even number; the others have no "
                "positions"));
  add(absent_or("model.v_head_dim", SXT_FIELD(model.v_head_dim),
                "width of one value head, at most head_dim"));
}

// 0 where the family has no experts.
void add_model_experts(std::vector<Key>& keys) {
  const std::string experts = "a model.family with experts";
  const auto add = [&](Key key) {
    keys.push_back(only_when(experts, is_of_experts, std::move(key)));
  };
  add(falls_back_to("from the preset",
                    absent_or("model.experts", SXT_FIELD(model.experts), "experts of a layer")));
  add(falls_back_to("from the preset, else 2",
                    absent_or("model.experts_per_token", SXT_FIELD(model.experts_per_token),
                              "experts that the router chooses for a token")));
  add(falls_back_to("8/3 hidden up to a multiple of 64",
                    absent_or("model.expert_ffn", SXT_FIELD(model.expert_ffn),
                              "intermediate size of one expert")));
  add(choice_key<RouterKind>(
      "model.router", SXT_FIELD(model.router),
      {{"softmax-after", RouterKind::SoftmaxAfter},
       {"softmax-before", RouterKind::SoftmaxBefore},
       {"balanced", RouterKind::Balanced},
       {"sigmoid", RouterKind::Sigmoid}},
      "router: softmax-after takes the top-k logits and their softmax, softmax-before the top-k of "
      "a softmax over all experts without renormalising, balanced every expert in turn (to measure "
      "without imbalance), sigmoid the top-k of sigmoids plus a bias that balances the experts "
      "(DeepSeek-V3)"));
  add(int_key("model.shared_experts", SXT_FIELD(model.shared_experts), {0, kMostShared},
              "experts of a layer that every token uses, as one MLP of so many times the width"));
  add(int_key("model.dense_layers", SXT_FIELD(model.dense_layers), {0, kMaxLayers},
              "first layers that have an MLP of model.ffn in place of experts"));
}

void add_sigmoid_router(std::vector<Key>& keys) {
  const auto add = [&](Key key) {
    keys.push_back(only_when(
        "model.router = sigmoid",
        [](const Config& config) {
          return is_of_experts(config) && config.model.router == RouterKind::Sigmoid;
        },
        std::move(key)));
  };
  add(int_key("model.router_groups", SXT_FIELD(model.router_groups), kModelSize,
              "groups of experts; a token chooses from the best ones (group-limited routing)"));
  add(int_key("model.groups_per_token", SXT_FIELD(model.groups_per_token), kModelSize,
              "groups that a token chooses its experts from"));
  add(bool_key("model.router_normalize", SXT_FIELD(model.router_normalize),
               "divide the weights of the chosen experts by their sum"));
  add(float_key("model.router_scale", SXT_FIELD(model.router_scale), {1e-6, 1e6},
                "factor of the weights of the chosen experts (routed scaling factor)"));
  add(float_key("model.router_bias_std", SXT_FIELD(model.router_bias_std), {0, 100},
                "standard deviation of the routers' biases at the start; above 0 a run starts out "
                "of balance, to study how it recovers"));
}

void add_llama3_rope(std::vector<Key>& keys) {
  const auto add = [&](Key key) {
    keys.push_back(only_when(
        "model.rope_type = llama3",
        [](const Config& config) { return is_scaled_as(config, RopeType::Llama3); },
        std::move(key)));
  };
  add(float_key(
      "model.rope_low_freq_factor", SXT_FIELD(model.rope_scaling.low_freq_factor), {1e-3, 1e6},
      "Llama-3 RoPE scaling: wavelengths above original_seq / this are scaled by the factor"));
  add(float_key("model.rope_high_freq_factor", SXT_FIELD(model.rope_scaling.high_freq_factor),
                {1e-3, 1e6},
                "Llama-3 RoPE scaling: wavelengths below original_seq / this are not scaled"));
}

void add_yarn_rope(std::vector<Key>& keys) {
  const auto add = [&](Key key) {
    keys.push_back(only_when(
        "model.rope_type = yarn",
        [](const Config& config) { return is_scaled_as(config, RopeType::Yarn); }, std::move(key)));
  };
  add(float_key("model.rope_beta_fast", SXT_FIELD(model.rope_scaling.beta_fast), {1e-3, 1e6},
                "YaRN: pairs that turn more often than this in original_seq are not scaled"));
  add(float_key("model.rope_beta_slow", SXT_FIELD(model.rope_scaling.beta_slow), {1e-3, 1e6},
                "YaRN: pairs that turn less often than this in original_seq are scaled by the "
                "factor"));
  add(falls_back_to(
      "0: 0.1 ln(factor) + 1, or the quotient by mscale and mscale_all_dim",
      float_key("model.rope_attention_factor", SXT_FIELD(model.rope_scaling.attention_factor),
                {0, 1e3}, "YaRN: factor of rotated queries and keys")));
  add(float_key("model.rope_mscale", SXT_FIELD(model.rope_scaling.mscale), {0, 1e3},
                "YaRN: numerator of the attention factor is 0.1 mscale ln(factor) + 1; 0 is none"));
  add(float_key("model.rope_mscale_all_dim", SXT_FIELD(model.rope_scaling.mscale_all_dim), {0, 1e3},
                "YaRN: the same for its denominator; in deepseek-moe the square of it multiplies "
                "the scores of attention; 0 is none"));
}

void add_rope(std::vector<Key>& keys) {
  const std::string rope = "a model.family other than gpt2";
  keys.push_back(only_when(rope, is_rope,
                           float_key("model.rope_theta", SXT_FIELD(model.rope_theta), {1, 1e12},
                                     "base of the rotary frequencies (RoPE theta)")));
  keys.push_back(
      only_when(rope, is_rope,
                float_key("model.rope_factor", SXT_FIELD(model.rope_scaling.factor), {1, 1e6},
                          "RoPE scaling: factor by which the context was extended; 1 is no "
                          "scaling")));
  keys.push_back(only_when(
      "a model.rope_factor above 1", is_rope_scaled,
      choice_key<RopeType>(
          "model.rope_type", SXT_FIELD(model.rope_scaling.type),
          {{"llama3", RopeType::Llama3}, {"linear", RopeType::Linear}, {"yarn", RopeType::Yarn}},
          "RoPE scaling: llama3 scales long wavelengths, linear all, yarn long ones, and "
          "multiplies rotated queries and keys by an attention factor")));
  keys.push_back(only_when(
      "model.rope_type = llama3 or yarn",
      [](const Config& config) {
        return is_rope_scaled(config) && config.model.rope_scaling.type != RopeType::Linear;
      },
      int_key("model.rope_original_seq", SXT_FIELD(model.rope_scaling.original_seq), kModelSize,
              "RoPE scaling: context length before the extension")));
  add_llama3_rope(keys);
  add_yarn_rope(keys);
}

void add_model_details(std::vector<Key>& keys) {
  keys.push_back(float_key("model.norm_eps", SXT_FIELD(model.norm_eps), {1e-12, 1},
                           "added to the variance in LayerNorm and RMSNorm"));
  keys.push_back(only_when(
      "model.family = gpt2", [](const Config& config) { return !is_rope(config); },
      bool_key("model.gelu_exact", SXT_FIELD(model.gelu_exact), "GELU by erf instead of tanh")));
  keys.push_back(float_key("model.init_std", SXT_FIELD(model.init_std), {0, 10},
                           "standard deviation of the initial weights"));
  keys.push_back(
      float_key("model.dropout", SXT_FIELD(model.dropout), {0, 1, High::Excluded},
                "dropout probability after the embedding and after each attention and feed-forward "
                "layer, before the residual is added; there is no attention dropout"));
}

}  // namespace

void add_model_keys(std::vector<Key>& keys) {
  add_model_source(keys);
  add_model_sizes(keys);
  add_attention_details(keys);
  add_latent_attention(keys);
  add_model_experts(keys);
  add_sigmoid_router(keys);
  add_rope(keys);
  add_model_details(keys);
}

}  // namespace sextant

#include "config/resolve.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "config/check.h"
#include "config/keys.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

// What a preset or a directory says of a model. Dropout belongs to a training.
bool is_model_size(const Key& key) {
  return key.name.starts_with("model.") && key.name != "model.preset" && key.name != "model.hf" &&
         key.name != "model.dropout";
}

void apply(Config& config, const Key& key, const Value& value) {
  const std::string problem = key.set(config, value);
  SXT_CHECK(problem.empty(), Internal, bad_value(key, value, problem));
}

// Whether the settings leave a size of the model open.
bool needs_sizes(const Settings& settings) {
  Config config;
  for (const Key& key : config_keys())
    if (const Setting* setting = settings.find(key.name)) apply(config, key, setting->value);
  return std::ranges::any_of(config_keys(), [&](const Key& key) {
    return is_model_size(key) && key.applies(config) && !settings.has(key.name);
  });
}

// A directory may hold anything: what it says passes the checks of the keys, or is refused.
void check_hf(const ModelConfig& model, const std::string& directory) {
  Config source, scratch;
  source.model = model;
  for (const Key& key : config_keys()) {
    if (!is_model_size(key)) continue;
    const Value value = key.get(source);
    if (value == Value(int64_t{0})) continue;  // not said
    const std::string problem = key.set(scratch, value);
    SXT_CHECK(problem.empty(), Data, directory, ": ", bad_value(key, value, problem));
  }
}

std::string text_of(const Settings& settings, const std::string& key) {
  const Setting* setting = settings.find(key);
  return setting == nullptr ? "" : std::get<std::string>(setting->value);
}

// The model that the settings start from, if any; `origin` says which.
std::optional<ModelConfig> base_model(const Settings& settings, const LoadOptions& options,
                                      std::string& origin) {
  const std::string preset = text_of(settings, "model.preset");
  const std::string hf = text_of(settings, "model.hf");
  SXT_CHECK(preset.empty() || hf.empty(), Config, settings.where("model.hf"), "model.hf = \"", hf,
            "\" beside model.preset = \"", preset, "\": set one of them");
  if (!preset.empty()) {
    origin = "preset " + preset;
    return model_preset(preset);
  }
  if (hf.empty() && options.start) {
    origin = "checkpoint " + options.start_name;
    return options.start;
  }
  if (hf.empty() || !needs_sizes(settings)) return {};
  SXT_CHECK(options.read_hf, Config, settings.where("model.hf"), "model.hf = \"", hf,
            "\" cannot be read here: give the sizes in [model]");
  origin = "hf " + hf;
  ModelConfig model = options.read_hf(hf);
  check_hf(model, hf);
  return model;
}

void apply_settings(ResolvedConfig& out, const Settings& settings, const std::string& base) {
  for (const Key& key : config_keys()) {
    const Setting* setting = settings.find(key.name);
    const bool from_base = !base.empty() && is_model_size(key);
    out.origins[key.name] = setting ? setting->origin : from_base ? base : "default";
    if (setting == nullptr) continue;
    const Value before = key.get(out.config);
    apply(out.config, key, setting->value);
    if (from_base && key.get(out.config) != before)
      out.notes.push_back(concat(key.name, " = ", to_short_text(setting->value), " (",
                                 setting->origin, ") replaces ", to_short_text(before), " of ",
                                 base));
  }
}

// Sizes of the base model that followed from one that was replaced follow the new one.
void forget_dependent_sizes(ModelConfig& model, const ModelConfig& base, const Settings& settings) {
  const bool hidden = settings.has("model.hidden"), heads = settings.has("model.heads");
  if ((hidden || heads) && !settings.has("model.head_dim") &&
      base.head_dim * base.heads == base.hidden)
    model.head_dim = 0;
  if (heads && !settings.has("model.kv_heads") && base.kv_heads == base.heads) model.kv_heads = 0;
  if (hidden && !settings.has("model.ffn") && base.ffn == 4 * base.hidden) model.ffn = 0;
}

// `data_problem`: why the data does not tell the vocabulary, or "".
void require_sizes(const Config& config, std::string_view base, const std::string& data_problem) {
  const ModelConfig& model = config.model;
  const std::vector<std::pair<std::string, int64_t>> sizes = {{"model.layers", model.layers},
                                                              {"model.hidden", model.hidden},
                                                              {"model.heads", model.heads},
                                                              {"model.vocab", model.vocab},
                                                              {"model.seq", model.seq}};
  std::vector<std::string> missing;
  for (const auto& [name, size] : sizes)
    if (size == 0) missing.push_back(name);
  if (missing.empty()) return;
  SXT_CHECK(base.empty(), Data, base, " does not say ", join(missing, ", "));
  SXT_CHECK(missing.size() < sizes.size() - 1, Config,
            "no model is set: name a configuration file, or set model.preset (`sextant config "
            "models` lists the presets), or model.layers, hidden, heads, vocab and seq");
  SXT_CHECK(data_problem.empty() || missing != std::vector<std::string>{"model.vocab"}, Data,
            "model.vocab is to follow from the data: ", data_problem);
  const DataConfig& data = config.data;
  SXT_CHECK(data.kind != DataKind::Tokens || !data.path.empty() || !data.blend.empty(), Config,
            "data.kind = tokens needs data.path, a file, or data.blend");
  SXT_FAIL(Config, "the model is not complete: set ", join(missing, ", "), ", or model.preset");
}

void derive(ResolvedConfig& out, int64_t& field, const std::string& key, int64_t value) {
  if (field != 0) return;
  field = value;
  out.origins[key] = "derived";
}

int64_t default_ffn(const ModelConfig& model) {
  if (model.family == Family::Gpt2) return 4 * model.hidden;
  return ((8 * model.hidden + 2) / 3 + 63) / 64 * 64;
}

// The vocabulary follows the tokenizer of the data unless it is set, or belongs to weights (hf).
// Bytes fit into the vocabulary of any preset.
// Returns why the data does not tell it, or "".
std::string follow_tokenizer(ResolvedConfig& out, const Settings& settings,
                             const LoadOptions& options) {
  const bool has_weights = options.start && text_of(settings, "model.preset").empty();
  if (settings.has("model.vocab") || settings.has("model.hf") || !options.read_vocab || has_weights)
    return "";
  int64_t& vocab = out.config.model.vocab;
  const LoadOptions::Vocabulary found = options.read_vocab(out.config.data);
  if (found.ids == 0 || found.ids == vocab || (found.is_bytes && vocab > 0)) return found.problem;
  if (vocab > 0)
    out.notes.push_back(concat("model.vocab = ", found.ids, " (tokenizer of the data) replaces ",
                               vocab, " of ", out.origins["model.vocab"]));
  vocab = found.ids;
  out.origins["model.vocab"] = kTokenizerOrigin;
  return "";
}

void derive_model(ResolvedConfig& out, const Settings& settings, std::string_view base,
                  const std::string& data_problem) {
  ModelConfig& model = out.config.model;
  if (is_byte_text(out.config.data)) derive(out, model.vocab, "model.vocab", 256);
  require_sizes(out.config, base, data_problem);
  derive(out, model.kv_heads, "model.kv_heads", model.heads);
  SXT_CHECK(model.head_dim != 0 || model.hidden % model.heads == 0, Config,
            settings.where(settings.has("model.heads") ? "model.heads" : "model.hidden"),
            "model.heads = ", model.heads, " does not divide model.hidden = ", model.hidden,
            ": choose a divisor or set model.head_dim");
  derive(out, model.head_dim, "model.head_dim", model.hidden / model.heads);
  if (model.family == Family::DeepseekMoe) {
    SXT_CHECK(
        model.kv_lora_rank > 0 && model.qk_rope_head_dim > 0, Config,
        "model.family = deepseek-moe needs model.kv_lora_rank and model.qk_rope_head_dim, or ",
        "a model.preset such as tiny-deepseek");
    derive(out, model.v_head_dim, "model.v_head_dim", model.head_dim);
  }
  if (!has_experts(model.family)) {
    derive(out, model.ffn, "model.ffn", default_ffn(model));
    return;
  }
  SXT_CHECK(model.experts > 0, Config, "model.family = ", name_of(model.family),
            " needs model.experts, or a model.preset with experts");
  derive(out, model.experts_per_token, "model.experts_per_token", 2);
  derive(out, model.expert_ffn, "model.expert_ffn", default_ffn(model));
  if (model.dense_layers > 0) derive(out, model.ffn, "model.ffn", default_ffn(model));
}

// Settings that have no effect beside the others go back to their defaults, so that equal runs have
// equal configurations.
void clear_idle(ResolvedConfig& out, const Settings& settings) {
  const Config defaults;
  for (const Key& key : config_keys()) {
    if (key.applies(out.config)) continue;
    const Setting* setting = settings.find(key.name);
    if (setting != nullptr && key.get(out.config) != key.get(defaults))
      out.notes.push_back(concat(key.name, " = ", to_short_text(setting->value), " (",
                                 setting->origin, ") has no effect: it needs ", key.when));
    apply(out.config, key, key.get(defaults));
    out.origins[key.name] = "default";
  }
}

// One gate divided by the sum of all gates is 1 whatever the router says.
void note_constant_gates(ResolvedConfig& out) {
  const ModelConfig& model = out.config.model;
  if (!has_experts(model.family) || model.experts_per_token != 1) return;
  const bool is_sigmoid = model.router == RouterKind::Sigmoid && model.router_normalize;
  if (!is_sigmoid && model.router != RouterKind::SoftmaxAfter) return;
  out.notes.push_back(
      concat("model.experts_per_token = 1 with normalised gates: the gate of a token does not ",
             "depend on its router, which gets no gradient from the loss (",
             is_sigmoid ? "model.router_normalize = false" : "model.router = softmax-before",
             " gives it one)"));
}

}  // namespace

ResolvedConfig resolve(const Settings& settings, const LoadOptions& options) {
  ResolvedConfig out;
  std::string origin;
  const std::optional<ModelConfig> base = base_model(settings, options, origin);
  if (base) out.config.model = *base;
  out.config.model.preset.clear();  // as set, below
  out.config.model.hf.clear();
  apply_settings(out, settings, origin);
  if (base) forget_dependent_sizes(out.config.model, *base, settings);
  SXT_CHECK(settings.has("data.kind") || out.config.data.path.empty(), Config,
            settings.where("data.path"), "data.path = ", to_short_text(out.config.data.path),
            " without data.kind: set data.kind to tokens or text");
  const std::string data_problem = follow_tokenizer(out, settings, options);
  derive_model(out, settings, origin, data_problem);
  resolve_parallel(out, settings);
  resolve_batch(out, settings);
  clear_idle(out, settings);
  out.config.model.router_load = out.config.train.balance_scope == BalanceScope::Global;
  check_config(out.config, settings);
  note_constant_gates(out);
  for (const Key& key : config_keys())
    if (const Setting* setting = settings.find(key.name))
      out.chosen[key.name] = {setting->value, setting->origin};
  return out;
}

}  // namespace sextant

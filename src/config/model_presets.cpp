#include "config/model_presets.h"

#include <utility>

namespace sextant {
namespace {

// A line of the tables below; what a family has in common is added by its function.
struct Sizes {
  const char* name;
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
  bool tied = true;
  double rope_theta = 10000;
  double rope_factor = 1;  // Llama-3 scaling
  int64_t window = 0;      // sliding window
};

// Dims of the tiny ones divide by every degree of parallelism that a small test uses.
constexpr Sizes kGpt2[] = {
    {"tiny", 4, 64, 4, 4, 16, 256, 256, 64},
    {"gpt2-s", 6, 384, 6, 6, 64, 1536, 256, 256},
    {"gpt2-124m", 12, 768, 12, 12, 64, 3072, 50257, 1024},
    {"gpt2-355m", 24, 1024, 16, 16, 64, 4096, 50257, 1024},
    {"gpt2-774m", 36, 1280, 20, 20, 64, 5120, 50257, 1024},
    {"gpt2-1558m", 48, 1600, 25, 25, 64, 6400, 50257, 1024},
    {"gpt3-175b", 96, 12288, 96, 96, 128, 49152, 50257, 2048},  // attention dense in every layer
};

constexpr Sizes kLlama[] = {
    {"tiny-llama", 8, 64, 8, 4, 8, 128, 256, 64},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 2048, true, 1e5},
    {"smollm2-360m", 32, 960, 15, 5, 64, 2560, 49152, 2048, true, 1e5},
    {"smollm2-1.7b", 24, 2048, 32, 32, 64, 8192, 49152, 2048, true, 1.3e5},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 2048, false},
    {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096, false},
    {"llama2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096, false},
    {"llama2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096, false},
    {"llama-1b", 16, 2048, 32, 8, 64, 8192, 128256, 8192, true, 5e5, 32},
    {"llama-3b", 28, 3072, 24, 8, 128, 8192, 128256, 8192, true, 5e5, 32},
    {"llama-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192, false, 5e5, 8},
    {"llama-8b-8l", 8, 4096, 32, 8, 128, 14336, 128256, 8192, true, 5e5},  // a quarter, to measure
    {"llama-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192, false, 5e5, 8},
    {"llama-405b", 126, 16384, 128, 8, 128, 53248, 128256, 8192, false, 5e5, 8},
};

constexpr Sizes kMistral[] = {
    {.name = "tiny-mistral",
     .layers = 8,
     .hidden = 64,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 8,
     .ffn = 128,
     .vocab = 256,
     .seq = 64,
     .tied = false,
     .window = 16},
    {.name = "mistral-7b",
     .layers = 32,
     .hidden = 4096,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .ffn = 14336,
     .vocab = 32000,
     .seq = 32768,
     .tied = false,
     .window = 4096},
};

constexpr Sizes kQwen2[] = {
    {"tiny-qwen2", 8, 64, 8, 4, 8, 128, 256, 64, true, 1e6},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 4096, true, 1e6},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 4096, true, 1e6},
    {"qwen2.5-3b", 36, 2048, 16, 2, 128, 11008, 151936, 4096, true, 1e6},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 4096, false, 1e6},
    {"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064, 4096, false, 1e6},
    {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, 4096, false, 1e6},
    {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 4096, false, 1e6},
};

constexpr Sizes kQwen3[] = {
    {"tiny-qwen3", 8, 64, 8, 4, 16, 128, 256, 64, true, 1e6},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 4096, true, 1e6},
    {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, 4096, true, 1e6},
    {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 4096, true, 1e6},
    {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 4096, false, 1e6},
    {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, 4096, false, 1e6},
    {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 4096, false, 1e6},
};

// The same for families with experts.
struct ExpertSizes {
  Sizes sizes;  // ffn is that of an expert
  int64_t experts, experts_per_token;
};

constexpr ExpertSizes kMixtral[] = {
    {{"tiny-mixtral", 4, 64, 8, 4, 8, 128, 256, 64, false, 1e6}, 8, 2},
    {{"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, 1e6}, 8, 2},
    {{"mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32000, 65536, false, 1e6}, 8, 2},
};

constexpr ExpertSizes kQwen3Moe[] = {
    {{"tiny-qwen3-moe", 4, 64, 8, 4, 16, 32, 256, 64, false, 1e6}, 16, 4},
    {{"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 4096, false, 1e6}, 128, 8},
    {{"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 1536, 151936, 4096, false, 1e6}, 128, 8},
};

// The same for deepseek-moe: multi-head latent attention, a sigmoid router.
struct DeepseekSizes {
  ExpertSizes of;
  int64_t shared_experts, dense_layers, dense_ffn;
  int64_t q_lora_rank, kv_lora_rank, qk_rope_head_dim, v_head_dim;
  int64_t router_groups, groups_per_token;
  double router_scale;
  double norm_eps = 1e-6;
};

constexpr DeepseekSizes kDeepseek[] = {
    {{{"tiny-deepseek", 4, 64, 8, 8, 24, 32, 256, 64, false}, 8, 2},
     1,
     1,
     128,
     32,
     16,
     8,
     16,
     4,
     2,
     2.5},
    {{{"deepseek-v3", 61, 7168, 128, 128, 192, 2048, 129280, 4096, false}, 256, 8},
     1,
     3,
     18432,
     1536,
     512,
     64,
     128,
     8,
     4,
     2.5},
    {{{"kimi-k2", 61, 7168, 64, 64, 192, 2048, 163840, 4096, false, 5e4}, 384, 8},
     1,
     1,
     18432,
     1536,
     512,
     64,
     128,
     1,
     1,
     2.827},
    // Without its indexer of sparse attention and its layer of multi-token prediction.
    {{{"glm-5", 78, 6144, 64, 64, 256, 2048, 154880, 4096, false, 1e6}, 256, 8},
     1,
     3,
     12288,
     2048,
     512,
     64,
     256,
     1,
     1,
     2.5,
     1e-5},
};

ModelConfig model_of(const Sizes& sizes, Family family) {
  ModelConfig model;
  model.preset = sizes.name;
  model.family = family;
  model.layers = sizes.layers;
  model.hidden = sizes.hidden;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.head_dim = sizes.head_dim;
  model.ffn = sizes.ffn;
  model.vocab = sizes.vocab;
  model.seq = sizes.seq;
  model.tied = sizes.tied;
  model.rope_theta = sizes.rope_theta;
  model.rope_scaling.factor = sizes.rope_factor;
  model.sliding_window = sizes.window;
  const bool has_small_eps = family == Family::Qwen2 || family == Family::Qwen3 ||
                             family == Family::Qwen3Moe || family == Family::DeepseekMoe;
  model.norm_eps = has_small_eps ? 1e-6 : 1e-5;
  return model;
}

ModelConfig model_of(const ExpertSizes& of, Family family) {
  ModelConfig model = model_of(of.sizes, family);
  model.expert_ffn = std::exchange(model.ffn, 0);
  model.experts = of.experts;
  model.experts_per_token = of.experts_per_token;
  return model;
}

ModelConfig model_of(const DeepseekSizes& from, Family family) {
  ModelConfig model = model_of(from.of, family);
  model.ffn = from.dense_ffn;
  model.shared_experts = from.shared_experts;
  model.dense_layers = from.dense_layers;
  model.q_lora_rank = from.q_lora_rank;
  model.kv_lora_rank = from.kv_lora_rank;
  model.qk_rope_head_dim = from.qk_rope_head_dim;
  model.v_head_dim = from.v_head_dim;
  model.router = RouterKind::Sigmoid;
  model.router_groups = from.router_groups;
  model.groups_per_token = from.groups_per_token;
  model.router_scale = from.router_scale;
  model.norm_eps = from.norm_eps;
  return model;
}

std::string_view name_of(const Sizes& sizes) {
  return sizes.name;
}
std::string_view name_of(const ExpertSizes& of) {
  return of.sizes.name;
}

std::string_view name_of(const DeepseekSizes& from) {
  return from.of.sizes.name;
}

template <class Visit>
void for_each_preset(Visit visit) {
  for (const Sizes& sizes : kGpt2) visit(sizes, Family::Gpt2);
  for (const Sizes& sizes : kLlama) visit(sizes, Family::Llama);
  for (const Sizes& sizes : kMistral) visit(sizes, Family::Mistral);
  for (const Sizes& sizes : kQwen2) visit(sizes, Family::Qwen2);
  for (const Sizes& sizes : kQwen3) visit(sizes, Family::Qwen3);
  for (const ExpertSizes& sizes : kMixtral) visit(sizes, Family::Mixtral);
  for (const ExpertSizes& sizes : kQwen3Moe) visit(sizes, Family::Qwen3Moe);
  for (const DeepseekSizes& sizes : kDeepseek) visit(sizes, Family::DeepseekMoe);
}

}  // namespace

std::optional<ModelConfig> model_preset(std::string_view name) {
  std::optional<ModelConfig> found;
  for_each_preset([&](const auto& sizes, Family family) {
    if (name_of(sizes) == name) found = model_of(sizes, family);
  });
  return found;
}

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for_each_preset([&](const auto& sizes, Family) { names.emplace_back(name_of(sizes)); });
  return names;
}

const char* name_of(Family family) {
  constexpr const char* kNames[] = {"gpt2",  "llama",   "mistral",   "qwen2",
                                    "qwen3", "mixtral", "qwen3-moe", "deepseek-moe"};
  return kNames[static_cast<size_t>(family)];
}

bool has_experts(Family family) {
  return family == Family::Mixtral || family == Family::Qwen3Moe || family == Family::DeepseekMoe;
}

}  // namespace sextant

#include "config/model_presets.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace sextant {
namespace {

// Written from the papers' layer definitions, apart from the code that builds models.
int64_t count_parameters(const ModelConfig& m) {
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  if (m.family == Family::Gpt2) {
    const int64_t attention = m.hidden * (q + 2 * kv) + (q + 2 * kv) + q * m.hidden + m.hidden;
    const int64_t mlp = 2 * m.hidden * m.ffn + m.ffn + m.hidden;
    const int64_t norms = 4 * m.hidden;
    return m.layers * (attention + mlp + norms) + (m.vocab + m.seq + 2) * m.hidden +
           (m.tied ? 0 : m.vocab * m.hidden);
  }
  if (m.family == Family::DeepseekMoe) {
    const int64_t nope = m.head_dim - m.qk_rope_head_dim;
    const int64_t latent = m.hidden * m.q_lora_rank + m.q_lora_rank * (1 + q) +
                           m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim) +
                           m.kv_lora_rank * (1 + m.heads * (nope + m.v_head_dim)) +
                           m.heads * m.v_head_dim * m.hidden;
    const int64_t each = 3 * m.hidden * m.expert_ffn;
    const int64_t experts = (m.experts + m.shared_experts) * each + m.experts * (m.hidden + 1);
    return m.layers * (latent + 2 * m.hidden) + m.dense_layers * 3 * m.hidden * m.ffn +
           (m.layers - m.dense_layers) * experts + m.hidden + 2 * m.vocab * m.hidden;
  }
  const int64_t attention = m.hidden * (2 * q + 2 * kv);
  const int64_t mlp = 3 * m.hidden * m.ffn + m.experts * (m.hidden + 3 * m.hidden * m.expert_ffn);
  const int64_t biases = m.family == Family::Qwen2 ? q + 2 * kv : 0;
  const bool norms_heads = m.family == Family::Qwen3 || m.family == Family::Qwen3Moe;
  const int64_t norms = 2 * m.hidden + (norms_heads ? 2 * m.head_dim : 0);
  return m.layers * (attention + biases + mlp + norms) + m.hidden +
         m.vocab * m.hidden * (m.tied ? 1 : 2);
}

TEST(ModelPresets, HaveThePublishedParameterCounts) {
  const std::map<std::string, int64_t> published = {
      {"gpt2-124m", 124'439'808},           {"gpt2-355m", 354'823'168},
      {"gpt2-774m", 774'030'080},           {"gpt2-1558m", 1'557'611'200},
      {"gpt3-175b", 174'604'259'328},       {"smollm2-135m", 134'515'008},
      {"smollm2-360m", 361'821'120},        {"smollm2-1.7b", 1'711'376'384},
      {"tinyllama-1.1b", 1'100'048'384},    {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},       {"llama2-70b", 68'976'648'192},
      {"llama-1b", 1'235'814'400},          {"llama-3b", 3'212'749'824},
      {"llama-8b", 8'030'261'248},          {"llama-70b", 70'553'706'496},
      {"llama-405b", 405'853'388'800},      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},        {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},          {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},        {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},   {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560}, {"deepseek-v3", 671'026'419'200},
      {"kimi-k2", 1'026'408'232'448},       {"mistral-7b", 7'241'732'096},
      {"qwen2.5-0.5b", 494'032'768},        {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},        {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},      {"glm-5", 743'180'209'920},
  };
  // Models of this project, which nobody published a count for.
  const std::set<std::string> own = {
      "tiny",         "gpt2-s",         "tiny-llama",    "tiny-qwen3",   "llama-8b-8l",
      "tiny-mixtral", "tiny-qwen3-moe", "tiny-deepseek", "tiny-mistral", "tiny-qwen2"};
  for (const std::string& name : model_preset_names()) {
    if (own.contains(name)) continue;
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(count_parameters(*model_preset(name)), published.at(name)) << name;
  }
  EXPECT_EQ(model_preset_names().size(), published.size() + own.size());
}

TEST(ModelPresets, AreWholeAndNamedOnce) {
  std::set<std::string> seen;
  for (const std::string& name : model_preset_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name << " twice";
    const ModelConfig m = *model_preset(name);
    EXPECT_EQ(m.preset, name);
    EXPECT_EQ(m.heads % m.kv_heads, 0) << name;
    EXPECT_TRUE(m.layers > 0 && m.ffn + m.expert_ffn > 0 && m.seq > 0 && m.vocab >= 256) << name;
    if (m.family == Family::Gpt2) {
      EXPECT_EQ(m.heads * m.head_dim, m.hidden) << name;
      EXPECT_EQ(m.ffn, 4 * m.hidden) << name;
      EXPECT_EQ(m.kv_heads, m.heads) << name;
      EXPECT_EQ(m.rope_theta, ModelConfig{}.rope_theta) << name;
    }
  }
}

TEST(ModelPresets, Gpt2sIsTheBenchmarkShape) {
  const ModelConfig m = *model_preset("gpt2-s");
  EXPECT_EQ(m.family, Family::Gpt2);
  EXPECT_EQ(m.layers, 6);
  EXPECT_EQ(m.hidden, 384);
  EXPECT_EQ(m.heads, 6);
  EXPECT_EQ(m.ffn, 1536);
  EXPECT_EQ(m.vocab, 256);
  EXPECT_EQ(m.seq, 256);
  EXPECT_TRUE(m.tied);
}

TEST(ModelPresets, LlamaEightLayersIsAQuarterOfTheEightBillion) {
  const ModelConfig whole = *model_preset("llama-8b");
  const ModelConfig part = *model_preset("llama-8b-8l");
  EXPECT_EQ(part.layers * 4, whole.layers);
  EXPECT_EQ(part.hidden, whole.hidden);
  EXPECT_EQ(part.ffn, whole.ffn);
  EXPECT_TRUE(part.tied);
  EXPECT_EQ(whole.rope_scaling.factor, 8);
  EXPECT_EQ(model_preset("llama-1b")->rope_scaling.factor, 32);
}

TEST(ModelPresets, AnUnknownNameIsNoPreset) {
  EXPECT_FALSE(model_preset("gpt2"));
  EXPECT_FALSE(model_preset(""));
}

}  // namespace
}  // namespace sextant

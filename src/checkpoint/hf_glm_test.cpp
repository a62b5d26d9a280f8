// GLM-5's Hugging Face layout, and what models with latent attention leave out by name.
#include <algorithm>
#include <cstdio>

#include "support/expect_error.h"
#include "support/hf_directories.h"

namespace sextant {
namespace {

// GLM-5 in miniature: layer 1 has experts, and a published directory also has the indexer of every
// layer and a third layer, of multi-token prediction.
ModelConfig small_glm() {
  ModelConfig model = small_model(Family::DeepseekMoe, false);
  model.preset = "glm-5";
  model.norm_eps = 1e-5;
  model.rope_theta = 1e6;
  model.kv_heads = 4;
  model.head_dim = 6;
  model.qk_rope_head_dim = model.v_head_dim = 2;
  model.q_lora_rank = 3;
  model.kv_lora_rank = 4;
  model.experts = 4;
  model.dense_layers = model.shared_experts = 1;
  model.ffn = 6;
  model.router = RouterKind::Sigmoid;
  model.router_scale = 2.5;
  return model;
}

TEST_F(HfTest, GlmComesAndGoesInItsOwnLayoutWithoutWhatItLeavesOutByName) {
  const ModelConfig model = small_glm();
  std::vector<StoredEntry> entries = entries_of(model, "model.");
  const size_t own = entries.size();
  for (const char* layer : {"0", "1", "2"})
    for (const char* name :
         {"wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias", "weights_proj.weight"})
      entries.push_back(
          {concat("model.layers.", layer, ".self_attn.indexer.", name), StoredType::F32, {4}});
  for (const char* name : {"eh_proj.weight", "enorm.weight", "hnorm.weight",
                           "shared_head.norm.weight", "self_attn.o_proj.weight"})
    entries.push_back({concat("model.layers.2.", name), StoredType::F32, {8}});
  const auto value = [](const std::string& name, int64_t i) {
    return static_cast<float>(Random(3, name).normal(static_cast<uint64_t>(i)));
  };
  write_theirs(dir_ / "hf", model, entries, value);
  EXPECT_NE(read_text(disk_, dir_ / "hf/config.json").find("\"glm_moe_dsa\""), std::string::npos);

  std::FILE* file = std::tmpfile();
  Log log(LogLevel::Normal, Color::Never, file);
  const ImportReport imported = import_hf(disk_, dir_ / "hf", dir_ / "ck", log);
  EXPECT_EQ(imported.model, model);
  std::rewind(file);
  std::string told(4096, 0);
  told.resize(std::fread(told.data(), 1, told.size(), file));
  std::fclose(file);
  EXPECT_NE(told.find("warning: left out: 15 tensors such as "
                      "model.layers.0.self_attn.indexer.k_norm.bias, the indexer of sparse "
                      "attention: here every query sees all keys before it"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("warning: left out: 5 tensors such as model.layers.2.eh_proj.weight, a layer "
                      "of multi-token prediction"),
            std::string::npos)
      << told;

  const ExportReport exported = export_hf(disk_, dir_ / "ck", dir_ / "back", {});
  EXPECT_EQ(static_cast<size_t>(exported.tensors), own);
  EXPECT_NE(exported.left_out.find("self_attn.indexer"), std::string::npos);
  EXPECT_EQ(read_text(disk_, dir_ / "back/config.json"), read_text(disk_, dir_ / "hf/config.json"));
  const HfWeights before(disk_, dir_ / "hf"), after(disk_, dir_ / "back");
  for (const std::string& name : after.names()) {
    const std::span<const std::byte> a = before.at(name).data, b = after.at(name).data;
    EXPECT_TRUE(std::ranges::equal(a, b)) << name;
  }
  EXPECT_EQ(after.names().size(), own);
}

// The same in the layout of deepseek_v3: what other families do not know is an error there.
TEST_F(HfTest, OnlyFamiliesWithLatentAttentionLeaveOutAnIndexer) {
  for (const Family family : {Family::Llama, Family::DeepseekMoe}) {
    ModelConfig model = family == Family::Llama ? small_model(family, false) : small_glm();
    model.preset = "";
    std::vector<StoredEntry> entries = entries_of(model, "model.");
    entries.push_back({"model.layers.1.self_attn.indexer.wk.weight", StoredType::F32, {4}});
    const std::string at = dir_ / concat("hf-", name_of(family));
    write_theirs(at, model, entries, [](const std::string&, int64_t) { return 1.0f; });
    if (family == Family::Llama)
      EXPECT_ERROR(import_hf(disk_, at, dir_ / "ck", log_), Data, "has no place in a model");
    else
      EXPECT_EQ(import_hf(disk_, at, dir_ / "ck", log_).model, model);
  }
}

}  // namespace
}  // namespace sextant

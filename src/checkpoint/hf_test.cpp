// Between checkpoints and Hugging Face directories.
#include "support/expect_error.h"
#include "support/hf_directories.h"

namespace sextant {
namespace {

TEST_F(HfTest, ExportThenImportIsTheIdentity) {
  for (const Family family : {Family::Gpt2, Family::Llama, Family::Mistral, Family::Qwen2,
                              Family::Qwen3, Family::Mixtral, Family::Qwen3Moe})
    for (const bool tied : {false, true}) {
      TempDir dir;
      const ModelConfig model = small_model(family, tied);
      write_ours(dir / "run", model);
      const ExportReport exported = export_hf(disk_, dir / "run", dir / "hf", {});
      EXPECT_EQ(exported.files, (std::vector<std::string>{"model.safetensors"}));
      const ImportReport imported = import_hf(disk_, dir / "hf", dir / "back", log_);
      EXPECT_EQ(imported.model, model);
      const Manifest manifest = read_manifest(disk_, imported.path);
      EXPECT_EQ(parse_config(manifest.state.config, "config", {}).config.model, model);
      for (const TensorEntry& entry : manifest.tensors)
        EXPECT_EQ(ours(dir / "back", entry.name), ours(dir / "run", entry.name)) << entry.name;
      const Manifest before = read_manifest(disk_, resolve_checkpoint(disk_, dir / "run"));
      EXPECT_EQ(2 * manifest.tensors.size(), before.tensors.size());
    }
}

TEST_F(HfTest, BiasesAndWindowsSurviveExportAndImport) {
  std::vector<ModelConfig> models;
  for (const Family family : {Family::Llama, Family::Qwen3, Family::Qwen3Moe}) {
    models.push_back(small_model(family, false));
    models.back().attention_bias = true;
    models.back().mlp_bias = family == Family::Llama;
  }
  for (const Family family :
       {Family::Qwen2, Family::Qwen3, Family::Mixtral, Family::Qwen3Moe, Family::Mistral}) {
    models.push_back(small_model(family, true));
    models.back().sliding_window = family == Family::Mistral ? 0 : 4;
  }
  for (const ModelConfig& model : models) {
    TempDir dir;
    write_ours(dir / "run", model);
    export_hf(disk_, dir / "run", dir / "hf", {});
    const ImportReport imported = import_hf(disk_, dir / "hf", dir / "back", log_);
    EXPECT_EQ(imported.model, model) << name_of(model.family);
    for (const TensorEntry& entry : read_manifest(disk_, imported.path).tensors)
      EXPECT_EQ(ours(dir / "back", entry.name), ours(dir / "run", entry.name)) << entry.name;
  }
}

TEST_F(HfTest, GatedMlpBiasesAreThoseOfGateThenUp) {
  ModelConfig model = small_model(Family::Llama, false);
  model.attention_bias = model.mlp_bias = true;
  write_theirs(dir_ / "hf", model, entries_of(model, "model."),
               [](const std::string& name, int64_t i) {
                 return element(name == "model.layers.1.mlp.gate_proj.bias"      ? 1
                                : name == "model.layers.1.mlp.up_proj.bias"      ? 2
                                : name == "model.layers.1.self_attn.k_proj.bias" ? 3
                                                                                 : 0,
                                0, i);
               });
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  std::vector<float> gate_up;
  for (const int code : {1, 2})
    for (int64_t i = 0; i < 6; ++i) gate_up.push_back(element(code, 0, i));
  EXPECT_EQ(ours(dir_ / "ck", "layers.1.mlp.gate_up.bias"), gate_up);
  // Two groups of two query heads of width 2, then the group's key and value.
  const std::vector<float> qkv = ours(dir_ / "ck", "layers.1.attention.qkv.bias");
  EXPECT_EQ(std::vector<float>(qkv.begin() + 4, qkv.begin() + 6),
            (std::vector<float>{element(3, 0, 0), element(3, 0, 1)}));
  EXPECT_EQ(std::vector<float>(qkv.begin() + 12, qkv.begin() + 14),
            (std::vector<float>{element(3, 0, 2), element(3, 0, 3)}));
}

TEST_F(HfTest, RotaryScalingSurvivesExportAndImport) {
  ModelConfig model = small_model(Family::Llama, true);
  for (const RopeType type : {RopeType::Llama3, RopeType::Linear, RopeType::Yarn}) {
    TempDir dir;
    model.rope_scaling = {.factor = 8, .type = type};
    if (type == RopeType::Yarn) {
      model.rope_scaling.original_seq = 16;
      model.rope_scaling.beta_fast = 4;
      model.rope_scaling.beta_slow = 0.5;
      model.rope_scaling.attention_factor = 1.5;
      model.rope_scaling.mscale = 0.7;
      model.rope_scaling.mscale_all_dim = 0.9;
    }
    write_ours(dir / "run", model);
    export_hf(disk_, dir / "run", dir / "hf", {});
    EXPECT_EQ(import_hf(disk_, dir / "hf", dir / "back", log_).model, model);
  }
}

TEST_F(HfTest, NarrowTypesComeBackAsTheyWereStored) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    TempDir dir;
    write_ours(dir / "run", small_model(Family::Gpt2, true));
    export_hf(disk_, dir / "run", dir / "hf", {.dtype = dtype});
    import_hf(disk_, dir / "hf", dir / "back", log_);
    export_hf(disk_, dir / "back", dir / "again", {.dtype = dtype});
    EXPECT_EQ(read_text(disk_, dir / "again/model.safetensors"),
              read_text(disk_, dir / "hf/model.safetensors"));
    EXPECT_NE(ours(dir / "back", "layers.0.mlp.up.weight"),
              ours(dir / "run", "layers.0.mlp.up.weight"));
    EXPECT_NEAR(ours(dir / "back", "layers.0.mlp.up.weight")[3],
                ours(dir / "run", "layers.0.mlp.up.weight")[3], 0.01);
  }
}

TEST_F(HfTest, LlamaProjectionsBecomeGroupsOfHeads) {
  const ModelConfig model = small_model(Family::Llama, false);
  const std::string at = "model.layers.1.";
  write_theirs(dir_ / "hf", model, entries_of(model, "model."),
               [&](const std::string& name, int64_t i) {
                 const std::vector<std::string> parts = {
                     "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                     "self_attn.v_proj.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight"};
                 for (size_t code = 0; code < parts.size(); ++code)
                   if (name == at + parts[code])
                     return element(static_cast<int>(code), i / 8, i % 8);
                 return -1.0f;
               });
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  // Two groups of two query heads of width 2, then the group's key and value.
  const std::vector<std::pair<int, int64_t>> rows = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1},
                                                     {2, 0}, {2, 1}, {0, 4}, {0, 5}, {0, 6}, {0, 7},
                                                     {1, 2}, {1, 3}, {2, 2}, {2, 3}};
  std::vector<float> qkv;
  for (const auto& [code, row] : rows)
    for (int64_t column = 0; column < 8; ++column) qkv.push_back(element(code, row, column));
  EXPECT_EQ(ours(dir_ / "ck", "layers.1.attention.qkv.weight"), qkv);
  std::vector<float> gate_up;
  for (const int code : {3, 4})
    for (int64_t i = 0; i < 6 * 8; ++i) gate_up.push_back(element(code, i / 8, i % 8));
  EXPECT_EQ(ours(dir_ / "ck", "layers.1.mlp.gate_up.weight"), gate_up);
}

TEST_F(HfTest, Gpt2MatricesAreTransposedAndSortedToHeads) {
  const ModelConfig model = small_model(Family::Gpt2, true);
  // Files of a bare model, as the first published ones are, with the constants they carry.
  std::vector<StoredEntry> entries = entries_of(model, "");
  entries.push_back({"h.0.attn.bias", StoredType::F32, {1, 1, 7, 7}});
  entries.push_back({"h.0.attn.masked_bias", StoredType::F32, {}});
  write_theirs(dir_ / "hf", model, entries,
               [](const std::string&, int64_t i) { return static_cast<float>(i); });
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  // c_attn is [8, 24]: columns 0-7 all queries, 8-15 all keys, 16-23 all values, 2 for each head.
  std::vector<float> weight, bias;
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t part = 0; part < 3; ++part)
      for (int64_t row = 0; row < 2; ++row) {
        const int64_t column = part * 8 + head * 2 + row;
        bias.push_back(static_cast<float>(column));
        for (int64_t in = 0; in < 8; ++in) weight.push_back(static_cast<float>(in * 24 + column));
      }
  EXPECT_EQ(ours(dir_ / "ck", "layers.0.attention.qkv.weight"), weight);
  EXPECT_EQ(ours(dir_ / "ck", "layers.0.attention.qkv.bias"), bias);
  // c_fc is [8, 6]; tables are not transposed.
  const std::vector<float> up = ours(dir_ / "ck", "layers.1.mlp.up.weight");
  EXPECT_EQ(up[0 * 8 + 1], 6);
  EXPECT_EQ(up[1 * 8 + 0], 1);
  EXPECT_EQ(ours(dir_ / "ck", "embedding.tokens.weight")[8], 8);
  EXPECT_EQ(ours(dir_ / "ck", "embedding.positions.weight").size(), 7u * 8);
}

TEST_F(HfTest, ATiedHeadMayBeThereWhenItIsTheSame) {
  const ModelConfig model = small_model(Family::Qwen3, true);
  std::vector<StoredEntry> entries = entries_of(model, "model.");
  entries.push_back({"lm_head.weight", StoredType::F32, {5, 8}});
  const auto import_with = [&](float head) {
    write_theirs(dir_ / "hf", model, entries, [&](const std::string& name, int64_t) {
      return name == "lm_head.weight" ? head : 2.0f;
    });
    return import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  };
  EXPECT_EQ(import_with(2).tensors, 1 + 2 * (5 + 3) + 1);
  EXPECT_ERROR(import_with(3), Data, "lm_head.weight differs from model.embed_tokens.weight");
}

TEST_F(HfTest, RefusesWeightsThatDoNotFitTheConfig) {
  const ModelConfig model = small_model(Family::Llama, false);
  const auto import_changed = [&](const std::function<void(std::vector<StoredEntry>&)>& change) {
    std::vector<StoredEntry> entries = entries_of(model, "model.");
    change(entries);
    write_theirs(dir_ / "hf", model, entries, [](const std::string&, int64_t) { return 1.0f; });
    import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  };
  EXPECT_ERROR(import_changed([](auto& entries) { entries.pop_back(); }), Data,
               "tensor lm_head.weight [5, 8] is missing");
  EXPECT_ERROR(import_changed([](auto& entries) {
                 entries[3].shape = {8, 4};
               }),
               Data,
               "tensor model.layers.0.self_attn.k_proj.weight is [8, 4], its config.json makes it "
               "[4, 8]");
  EXPECT_ERROR(import_changed([](auto& entries) {
                 entries.push_back({"model.layers.0.self_attn.q_proj.bias", StoredType::F32, {8}});
               }),
               Data, "tensor \"model.layers.0.self_attn.q_proj.bias\" has no place in a model");
  EXPECT_ERROR(import_changed([](auto& entries) { entries[1].type = StoredType::I32; }), Data,
               "is I32; F32, F16 and BF16 can be imported");
  EXPECT_FALSE(disk_.exists(dir_ / "ck"));
}

TEST_F(HfTest, RefusesDirectoriesThatAreNone) {
  EXPECT_ERROR(import_hf(disk_, dir_ / "absent", dir_ / "ck", log_), Data,
               "absent: no such directory");
  EXPECT_ERROR(import_hf(disk_, dir_.path(), dir_ / "ck", log_), Data, "has no config.json");
  replace_file(disk_, dir_ / "config.json", "{\"model_type\": \"bert\"}");
  EXPECT_ERROR(import_hf(disk_, dir_.path(), dir_ / "ck", log_), Data,
               "model_type is \"bert\"; gpt2, llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, "
               "deepseek_v3 and glm_moe_dsa are supported");
  replace_file(disk_, dir_ / "config.json",
               R"({"model_type": "gpt2", "vocab_size": 8, "n_layer": 1, "n_embd": 9, "n_head": 3,
                   "n_positions": 8})");
  EXPECT_ERROR(import_hf(disk_, dir_.path(), dir_ / "ck", log_), Data,
               "model.head_dim = 3: takes an even number");
}

TEST_F(HfTest, ImportKeepsOutOfTheCheckpointsOfARun) {
  const ModelConfig model = small_model(Family::Gpt2, true);
  write_ours(dir_ / "run", model);
  export_hf(disk_, dir_ / "run", dir_ / "hf", {});
  EXPECT_ERROR(import_hf(disk_, dir_ / "hf", dir_ / "run", log_), Usage,
               "holds step-00000005, the checkpoint of a run");
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  EXPECT_EQ(list_checkpoints(disk_, dir_ / "ck", Check::Hashes).size(), 1u);
}

TEST_F(HfTest, ExportSplitsLargeModelsAndCopiesTheTokenizer) {
  write_ours(dir_ / "run", small_model(Family::Qwen3, false));
  write_text(*disk_.create(dir_ / "tok", OpenMode::Truncate), "{\"t\": 1}");
  const ExportReport report =
      export_hf(disk_, dir_ / "run", dir_ / "hf",
                {.tokenizer = read_tokenizer_files(disk_, dir_ / "tok"), .shard_bytes = 2000});
  EXPECT_GT(report.files.size(), 1u);
  EXPECT_TRUE(disk_.exists(dir_ / "hf/model.safetensors.index.json"));
  EXPECT_EQ(read_text(disk_, dir_ / "hf/tokenizer.json"), "{\"t\": 1}");
  import_hf(disk_, dir_ / "hf", dir_ / "back", log_);
  EXPECT_EQ(ours(dir_ / "back", "head.output.weight"), ours(dir_ / "run", "head.output.weight"));
  EXPECT_ERROR(export_hf(disk_, dir_ / "run", dir_ / "hf", {}), Usage, "from another export");
}

TEST_F(HfTest, ExportRefusesValuesBeyondTheType) {
  const ModelConfig model = small_model(Family::Gpt2, true);
  write_theirs(dir_ / "hf", model, entries_of(model, "transformer."),
               [](const std::string& name, int64_t) {
                 return name == "transformer.ln_f.bias" ? -65520.0f : 65519.0f;
               });
  import_hf(disk_, dir_ / "hf", dir_ / "ck", log_);
  EXPECT_ERROR(export_hf(disk_, dir_ / "ck", dir_ / "f16", {.dtype = DType::F16}), Data,
               "tensor transformer.ln_f.bias has the value -65520, beyond f16; export as f32 or "
               "bf16");
  export_hf(disk_, dir_ / "ck", dir_ / "bf16", {.dtype = DType::BF16});
  EXPECT_ERROR(export_hf(disk_, dir_ / "ck", dir_ / "f64", {.dtype = DType::F64}), Usage,
               "export to f64; f32, bf16 and f16 are possible");
}

TEST_F(HfTest, ExportRefusesARouterThatAConfigCannotSay) {
  ModelConfig model = small_model(Family::Mixtral, true);
  model.router = RouterKind::Balanced;
  EXPECT_ERROR(hf_config_from_model(model, DType::F32), Usage,
               "a mixtral config cannot have model.router = balanced: softmax-after works");
}

TEST_F(HfTest, ExportNoticesADamagedCheckpoint) {
  const std::string path = write_ours(dir_ / "run", small_model(Family::Llama, true));
  disk_.truncate(path + "/weights-00000.safetensors", 1000);
  EXPECT_ERROR(export_hf(disk_, dir_ / "run", dir_ / "hf", {}), Data, "1000 bytes, the manifest");
  EXPECT_FALSE(disk_.exists(dir_ / "hf"));
}

}  // namespace
}  // namespace sextant

#include "formats/hf_directory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

using nlohmann::json;

class HfDirectory : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    replace_file(storage_, dir_ / name, text);
  }
  // A weight file of U8 scalars whose byte is the last letter of their name.
  void put_weights(const std::string& file, const std::vector<std::string>& names) {
    std::vector<StoredEntry> entries;
    for (const std::string& name : names) entries.push_back({name, StoredType::U8, {1}});
    const auto out = storage_.create(dir_ / file, OpenMode::Truncate);
    SafetensorsWriter writer(*out, entries, hf_weight_metadata());
    for (const StoredEntry& entry : writer.order())
      writer.write(entry.name, std::as_bytes(std::span(&entry.name.back(), 1)));
    writer.finish();
  }
  void put_index(const json& weight_map) {
    put("model.safetensors.index.json", json{{"weight_map", weight_map}}.dump());
  }

  TempDir dir_;
  DiskStorage storage_;
};

TEST_F(HfDirectory, ReadsASingleWeightFile) {
  put_weights("model.safetensors", {"x.b", "x.a"});
  const HfWeights weights(storage_, dir_.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"x.a", "x.b"}));
  EXPECT_EQ(weights.at("x.a").data[0], std::byte{'a'});
  EXPECT_EQ(weights.find("x.c"), nullptr);
  EXPECT_ERROR(weights.at("x.c"), Data, "no tensor \"x.c\" among its 2");
}

TEST_F(HfDirectory, ReadsTheShardsOfAnIndex) {
  put_weights("s1.safetensors", {"a", "b"});
  put_weights("s2.safetensors", {"c"});
  put_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}, {"c", "s2.safetensors"}});
  const HfWeights weights(storage_, dir_.path());
  EXPECT_EQ(weights.files(), (std::vector{dir_ / "s1.safetensors", dir_ / "s2.safetensors"}));
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(weights.at(name).data[0], static_cast<std::byte>(*name));
}

TEST_F(HfDirectory, RefusesAnIndexThatDoesNotFitItsShards) {
  put_weights("s1.safetensors", {"a", "b"});
  put_weights("s2.safetensors", {"a"});
  put_index({{"a", "s1.safetensors"}});
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "tensor \"b\" is not listed there");
  put_index({{"a", "s1.safetensors"}, {"b", "s1.safetensors"}, {"c", "s1.safetensors"}});
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "tensor \"c\" is not in s1.safetensors");
  put_index({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}});
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "\"a\" is in another file too");
  put_index({{"a", "s3.safetensors"}});
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "s3.safetensors: No such file");
}

TEST_F(HfDirectory, RefusesIndexesThatAreMalformedOrLeadElsewhere) {
  for (const char* name : {"../x.safetensors", "/x.safetensors", "x.bin"}) {
    put_index({{"a", name}});
    EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "beside the index");
  }
  put_index({{"a", 1}});
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "is not a string");
  put_index(json::object());
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "weight_map is missing");
  put("model.safetensors.index.json", "[]");
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "weight_map is missing");
}

TEST_F(HfDirectory, SaysWhichFilesAreMissing) {
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "neither model.safetensors nor");
  EXPECT_ERROR(read_hf_config(storage_, dir_.path()), Data, "has no config.json");
  EXPECT_ERROR(read_hf_config(storage_, dir_ / "absent"), Data, "absent: no such directory");
  put("pytorch_model.bin", "x");
  EXPECT_ERROR(HfWeights(storage_, dir_.path()), Data, "save the model with safetensors first");
}

TEST_F(HfDirectory, ShardsFillUpToTheLimitInOrder) {
  const std::vector<StoredEntry> entries = {{"a", StoredType::U8, {6}},
                                            {"b", StoredType::U8, {4}},
                                            {"c", StoredType::U8, {1}},
                                            {"d", StoredType::U8, {30}}};
  const auto shards = plan_hf_shards(entries, 10);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[0].file, "model-00001-of-00003.safetensors");
  EXPECT_EQ(shards[0].entries.size(), 2u);
  EXPECT_EQ(shards[1].entries.at(0).name, "c");
  EXPECT_EQ(shards[2].entries.at(0).name, "d");
  EXPECT_EQ(plan_hf_shards(entries).at(0).file, "model.safetensors");
  EXPECT_EQ(plan_hf_shards(entries).size(), 1u);
}

TEST_F(HfDirectory, WhatIsWrittenReadsBack) {
  HfConfig config{.family = HfFamily::Qwen3,
                  .layers = 2,
                  .hidden = 8,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = 4,
                  .ffn = 16,
                  .vocab = 32,
                  .positions = 64,
                  .tied = true,
                  .activation = HfActivation::Silu,
                  .norm_eps = 1e-6,
                  .rope_theta = 1e6};
  const auto shards = plan_hf_shards({{"a", StoredType::U8, {1}}, {"b", StoredType::U8, {1}}}, 1);
  write_hf_directory(storage_, dir_.path(), config, shards);
  for (const HfShard& shard : shards) put_weights(shard.file, {shard.entries.at(0).name});
  EXPECT_EQ(read_hf_config(storage_, dir_.path()), config);
  EXPECT_EQ(HfWeights(storage_, dir_.path()).names(), (std::vector<std::string>{"a", "b"}));
  const json index = json::parse(read_text(storage_, dir_ / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 2);
  EXPECT_TRUE(storage_.exists(dir_ / "generation_config.json"));
}

TEST_F(HfDirectory, OneShardNeedsNoIndex) {
  write_hf_directory(storage_, dir_.path(),
                     {.layers = 1,
                      .hidden = 4,
                      .heads = 1,
                      .kv_heads = 1,
                      .head_dim = 4,
                      .ffn = 4,
                      .vocab = 4,
                      .positions = 4,
                      .norm_eps = 1e-5},
                     plan_hf_shards({{"a", StoredType::U8, {1}}}));
  EXPECT_FALSE(storage_.exists(dir_ / "model.safetensors.index.json"));
}

}  // namespace
}  // namespace sextant

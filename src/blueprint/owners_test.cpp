#include "blueprint/owners.h"

#include <gtest/gtest.h>

#include "blueprint/pipeline.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

// Elements as in memory_test.cpp: 524, two blocks of 172, 520.
Blueprint small_blueprint(bool tied = false, int64_t layers = 2) {
  ModelConfig model = *model_preset("tiny");
  model.layers = layers;
  model.hidden = 4;
  model.heads = model.kv_heads = 2;
  model.head_dim = 2;
  model.ffn = 8;
  model.vocab = 5;
  model.seq = 3;
  model.tied = tied;
  return make_blueprint(model);
}

MemoryQuestion sharded(int zero, int shard) {
  MemoryQuestion question;
  question.seq = 3;
  question.zero = zero;
  question.shard = shard;
  return question;
}

TEST(Owners, EachShardHasARangeOfEveryGroup) {
  const std::string text = owners_text(small_blueprint(), sharded(3, 3));
  const std::string wanted =
      "owners: zero 3 divides optimizer, gradients, weights over 3 shards\n"
      "  group                      elements  shard 0  shard 1  shard 2\n"
      "  embedding                       524    0-174  175-349  350-523\n"
      "  layers.0 … layers.1, each       172     0-57   58-114  115-171\n"
      "  head                            520    0-173  174-346  347-519\n"
      "  sum                            1388      465      462      461\n"
      "\n"
      "  bytes of a rank       shard 0   shard 1   shard 2\n"
      "  weights               1.8 KiB   1.8 KiB   1.8 KiB\n"
      "  gradients             1.8 KiB   1.8 KiB   1.8 KiB\n"
      "  optimizer             3.6 KiB   3.6 KiB   3.6 KiB\n"
      "  state between steps   7.3 KiB   7.2 KiB   7.2 KiB\n"
      "  peak of a step       15.0 KiB  15.0 KiB  15.0 KiB\n";
  EXPECT_EQ(text, wanted);
}

TEST(Owners, ManyShardsLeaveOutTheMiddle) {
  const std::string text = owners_text(small_blueprint(), sharded(1, 700));
  EXPECT_NE(text.find("shard 3  …  shard 699"), std::string::npos) << text;
  EXPECT_NE(text.find("none"), std::string::npos) << "172 elements over 700 ranks";
}

TEST(Owners, WithoutShardsEveryRankOwnsEverything) {
  EXPECT_TRUE(divided_by(sharded(2, 1)).empty());
  EXPECT_EQ(divided_by(sharded(2, 4)), (std::vector<std::string>{"optimizer", "gradients"}));
  const std::string text = owners_text(small_blueprint(), sharded(0, 1));
  EXPECT_TRUE(text.starts_with("owners: nothing is divided")) << text;
  EXPECT_NE(text.find("0-523"), std::string::npos);
}

Pipeline piped(const Blueprint& blueprint, int ranks, const std::string& schedule) {
  ParallelConfig parallel;
  parallel.pp = ranks;
  parallel.schedule = schedule;
  return make_pipeline(blueprint, parallel, 4);
}

TEST(Owners, EachRankOfAPipelineHasTheGroupsOfItsStages) {
  const Blueprint blueprint = small_blueprint();
  const Pipeline pipeline = piped(blueprint, 2, "1f1b");
  MemoryQuestion question = sharded(1, 2);
  question.pipeline = &pipeline;
  const std::string text = owners_text(blueprint, question);
  for (const char* part : {"zero 1 divides optimizer over 2 shards\n\n"
                           "pipeline rank 0: stage 0 (embedding, layer 0)\n"
                           "  group      elements  shard 0  shard 1\n"
                           "  embedding       524    0-261  262-523\n"
                           "  layers.0        172     0-85   86-171\n"
                           "  sum             696      348      348\n",
                           "\npipeline rank 1: stage 1 (layer 1, head)\n"
                           "  group     elements  shard 0  shard 1\n"
                           "  layers.1       172     0-85   86-171\n"
                           "  head           520    0-259  260-519\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find("twin"), std::string::npos) << "the head is not tied";
}

TEST(Owners, TwinsOnAnotherRankAreNamed) {
  const Blueprint blueprint = small_blueprint(/*tied=*/true);
  const Pipeline pipeline = piped(blueprint, 2, "1f1b"), dual = piped(blueprint, 2, "dualpipe");
  MemoryQuestion question = sharded(0, 1);
  question.pipeline = &pipeline;
  std::string text = owners_text(blueprint, question);
  EXPECT_NE(
      text.find("pipeline rank 0: stage 0 (embedding, layer 0); pipeline rank 1 has the twin"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("embedding (twin) "), std::string::npos) << text;
  EXPECT_EQ(text.find("layers.0 (twin) "), std::string::npos) << text;
  question.pipeline = &dual;
  text = owners_text(blueprint, question);
  EXPECT_NE(text.find("layers.0 … layers.1, each (twin)"), std::string::npos) << text;
}

TEST(Owners, LayersApartAreNotSaidToBeARun) {
  const Blueprint blueprint = small_blueprint(false, 8);
  ParallelConfig parallel;
  parallel.pp = 2;
  parallel.schedule = "interleaved";
  for (const auto& [chunks, name] :
       {std::pair{2, "layers.0 … layers.5 (4 of them), each"}, {4, "layers.0 … layers.6 (4"}}) {
    parallel.chunks = chunks;
    const Pipeline pipeline = make_pipeline(blueprint, parallel, 4);
    MemoryQuestion question = sharded(0, 1);
    question.pipeline = &pipeline;
    const std::string text = owners_text(blueprint, question);
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace sextant

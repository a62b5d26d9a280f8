#include "blueprint/owners.h"

#include <gtest/gtest.h>

#include "config/model_presets.h"

namespace sextant {
namespace {

// Elements as in memory_test.cpp: 524, two blocks of 172, 520.
Blueprint small_blueprint() {
  ModelConfig model = *model_preset("tiny");
  model.layers = 2;
  model.hidden = 4;
  model.heads = model.kv_heads = 2;
  model.head_dim = 2;
  model.ffn = 8;
  model.vocab = 5;
  model.seq = 3;
  model.tied = false;
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

}  // namespace
}  // namespace sextant

#include "train/owners.h"

#include <gtest/gtest.h>

#include "support/small_phantom.h"

namespace sextant {
namespace {

// Elements as in small_phantom.h, but with two blocks: 524, 172 twice, 520.
Config two_blocks(const Settings& settings) {
  return small_config(Settings{"model.layers=2"} + settings);
}

Settings sharded(int zero, int shard) {
  return {concat("parallel.zero=", zero), concat("parallel.shard=", shard)};
}

std::string text_of(const Config& config) {
  Preflight flight = forecast(config, 0);
  for (MemoryEstimate& memory : flight.memory) memory = without_workspace(memory);
  return owners_text(flight, config.parallel);
}

TEST(Owners, EachShardHasARangeOfEveryGroup) {
  const std::string text = text_of(two_blocks(sharded(3, 3)));
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
  const std::string text = text_of(two_blocks(sharded(1, 700)));
  EXPECT_NE(text.find("shard 3  …  shard 699"), std::string::npos) << text;
  EXPECT_NE(text.find("none"), std::string::npos) << "172 elements over 700 ranks";
}

TEST(Owners, WithoutShardsEveryRankOwnsEverything) {
  EXPECT_TRUE(divided_by(two_blocks(sharded(2, 1)).parallel).empty());
  EXPECT_EQ(divided_by(two_blocks(sharded(2, 4)).parallel),
            (std::vector<std::string>{"optimizer", "gradients"}));
  const std::string text = text_of(two_blocks(sharded(0, 1)));
  EXPECT_TRUE(text.starts_with("owners: nothing is divided")) << text;
  EXPECT_NE(text.find("0-523"), std::string::npos);
}

Settings piped(int ranks, const std::string& schedule) {
  return {concat("parallel.pp=", ranks), "parallel.schedule=" + schedule, "batch.accumulation=4"};
}

TEST(Owners, EachRankOfAPipelineHasTheGroupsOfItsStages) {
  const std::string text = text_of(two_blocks(sharded(1, 2) + piped(2, "1f1b")));
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
  EXPECT_EQ(text.find("duplicate"), std::string::npos) << "the head is not tied";
}

TEST(Owners, DuplicatesOnAnotherRankAreNamed) {
  const Settings tied = {"model.tied=true"};
  std::string text = text_of(two_blocks(tied + piped(2, "1f1b")));
  EXPECT_NE(
      text.find("pipeline rank 0: stage 0 (embedding, layer 0); pipeline rank 1 has the duplicate"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("embedding (duplicate) "), std::string::npos) << text;
  EXPECT_EQ(text.find("layers.0 (duplicate) "), std::string::npos) << text;
  text = text_of(two_blocks(tied + piped(2, "dualpipe")));
  EXPECT_NE(text.find("layers.0 … layers.1, each (duplicate)"), std::string::npos) << text;
}

TEST(Owners, LayersApartAreNotSaidToBeARun) {
  for (const auto& [chunks, name] :
       {std::pair{2, "layers.0 … layers.5 (4 of them), each"}, {4, "layers.0 … layers.6 (4"}}) {
    const std::string text = text_of(small_config(
        piped(2, "interleaved") + Settings{"model.layers=8", concat("parallel.chunks=", chunks)}));
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace sextant

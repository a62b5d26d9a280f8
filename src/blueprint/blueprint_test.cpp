#include "blueprint/blueprint.h"

#include <gtest/gtest.h>

#include <set>

#include "config/model_presets.h"

namespace sextant {
namespace {

Blueprint of(const char* preset) {
  return make_blueprint(*model_preset(preset));
}

TEST(Blueprint, CountsParametersAsPublished) {
  EXPECT_EQ(of("gpt2-124m").parameters(), 124'439'808);
  EXPECT_EQ(of("gpt2-1558m").parameters(), 1'557'611'200);
  EXPECT_EQ(of("llama-1b").parameters(), 1'235'814'400);
  EXPECT_EQ(of("llama-8b").parameters(), 8'030'261'248);
  EXPECT_EQ(of("llama-405b").parameters(), 405'853'388'800);
  EXPECT_EQ(of("qwen3-8b").parameters(), 8'190'735'360);
}

TEST(Blueprint, StoresTheVocabularyPadded) {
  const Blueprint gpt2 = of("gpt2-124m");
  EXPECT_EQ(gpt2.padded_vocab, 50304);
  EXPECT_EQ(gpt2.stored_parameters() - gpt2.parameters(), (50304 - 50257) * 768);
  EXPECT_EQ(of("gpt2-s").stored_parameters(), of("gpt2-s").parameters());
}

TEST(Blueprint, DecaysMatricesAndTablesOnlyAndNamesEachParameterOnce) {
  for (const char* preset : {"tiny", "tiny-llama", "tiny-qwen3"}) {
    std::set<std::string> names;
    for (const LayerSpec& layer : of(preset).layers)
      for (const ParamSpec& param : layer.params) {
        EXPECT_TRUE(names.insert(param.name).second) << param.name << " twice in " << preset;
        EXPECT_TRUE(param.name.starts_with(layer.name + ".")) << param.name;
        EXPECT_EQ(param.decay, param.shape.size() == 2) << param.name;
      }
  }
}

// gpt2-s by hand: 6 layers of 12 * 384^2, the head 256 * 384; attention 6 * 6 * 384 * 256.
TEST(Blueprint, CountsFlopsByItsFormula) {
  const double matmul = 6.0 * 12 * 384 * 384 + 256.0 * 384;
  EXPECT_EQ(of("gpt2-s").flops_per_token(256), 6 * matmul + 6.0 * 6 * 384 * 256);
}

}  // namespace
}  // namespace sextant

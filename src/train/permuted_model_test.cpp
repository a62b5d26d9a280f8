#include "train/permuted_model.h"

#include <gtest/gtest.h>

#include "support/training_test.h"
#include "train/distance.h"
#include "train/reorderings.h"

namespace sextant {
namespace {

class PermutedModelTest : public TrainingTest {
 protected:
  static Config config_of(const std::string& family, const std::string& more) {
    std::vector<std::string> settings = {"model.family=" + family, "model.layers=2",
                                         "model.hidden=24",        "model.heads=4",
                                         "model.ffn=20",           "model.vocab=259",
                                         "model.seq=16",           "batch.micro=2",
                                         "batch.accumulation=3",   more};
    if (family == "mixtral") settings.push_back("model.experts=4");
    return parse_config("", "test", settings).config;
  }
  Loader data_of(const Config& config) {
    return Loader::open(disk_, config.data,
                        {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
  }
};

TEST_F(PermutedModelTest, IsRestoredToTheBit) {
  for (const char* family : {"gpt2", "llama", "qwen3"}) {
    const Config config = config_of(family, "model.tied=false");
    const Loader data = data_of(config);
    LayoutRun run(config, data, {}, disk_, clock_);
    const GlobalState state = run.state();
    const PermutedModel model(run.blueprint(), 3);
    EXPECT_EQ(model.restored(model.permuted(state.weights)), state.weights);
    EXPECT_EQ(model.restored(model.permuted(state.optimizer)), state.optimizer);
    for (const char* name :
         {"layers.0.attention.out.weight", "layers.1.mlp.down.weight", "embedding.tokens.weight"})
      EXPECT_NE(model.permuted(state.weights).at(name), state.weights.at(name)) << name;
  }
}

TEST_F(PermutedModelTest, OfExpertsIsRestoredToTheBit) {
  const Config config = config_of("mixtral", "model.tied=false");
  const Loader data = data_of(config);
  LayoutRun run(config, data, {}, disk_, clock_);
  const GlobalState state = run.state();
  const PermutedModel model(run.blueprint(), 3);
  EXPECT_EQ(model.restored(model.permuted(state.weights)), state.weights);
  for (const char* name : {"layers.0.moe.router.weight", "layers.0.moe.experts.gate_up.weight",
                           "layers.1.moe.experts.down.weight"})
    EXPECT_NE(model.permuted(state.weights).at(name), state.weights.at(name)) << name;
}

// The same function: what differs is rounding, and something does.
TEST_F(PermutedModelTest, ComputesTheSameWithItsSumsInAnotherOrder) {
  for (const char* family : {"gpt2", "llama", "qwen3", "mixtral"})
    for (const char* more : {"model.tied=true", "model.dropout=0.3"}) {
      const Config config = config_of(family, more);
      const Loader data = data_of(config);
      LayoutRun run(config, data, {}, disk_, clock_);
      const GlobalState state = run.state();
      ChosenExperts experts;
      const double loss = run.compute_gradients(&experts);
      const GlobalTensors gradients = run.gradients();
      Reorderings reorderings(config, {micros_of(config, 0, 1)}, data, disk_, clock_);
      int seen = 0;
      reorderings.compute_gradients(
          {0, Reorderings::kCount}, 0, state, experts.own(), [&](const StepResult& result) {
            ++seen;
            EXPECT_NEAR(result.loss, loss, 1e-6 * loss);
            for (const auto& [name, values] : gradients) {
              const double far = rms_distance(values, result.gradients.at(name));
              EXPECT_LT(far, 1e-5 * rms(values)) << family << " " << more << " " << name;
              EXPECT_GT(far, 0) << family << " " << more << " " << name;
            }
          });
      EXPECT_EQ(seen, Reorderings::kCount);
    }
}

}  // namespace
}  // namespace sextant

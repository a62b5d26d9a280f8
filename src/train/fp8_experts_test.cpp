// Experts in fp8, in whole runs: memory, losses, equal bits, histories, verify.
#include <set>

#include "support/layouts.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

const Settings kPerTensor = {"precision.compute=fp8"}, kInBf16 = {"precision.compute=bf16"};
const Settings kInBlocks = kPerTensor + Settings{"precision.fp8_recipe=block"};
const Settings kWithHistory =
    kPerTensor + Settings{"precision.fp8_recipe=delayed", "precision.fp8_amax_history_len=3"};
const std::vector<Settings> kExpertRecipes = {kPerTensor, kWithHistory, kInBlocks};
const Settings kBeside = {"model.shared_experts=1"};
const Settings kLatent = {"model.family=deepseek-moe", "model.layers=3",
                          "model.dense_layers=1",      "model.ffn=24",
                          "model.shared_experts=2",    "model.router=sigmoid",
                          "model.kv_heads=8",          "model.heads=8",
                          "model.head_dim=6",          "model.v_head_dim=4",
                          "model.qk_rope_head_dim=2",  "model.q_lora_rank=12",
                          "model.kv_lora_rank=10"};

class Fp8ExpertsTest : public LayoutTest {
 protected:
  Fp8ExpertsTest()
      : LayoutTest({"model.family=mixtral", "model.kv_heads=4", "model.experts=8",
                    "model.experts_per_token=2", "model.expert_ffn=12", "run.threads=1",
                    "train.steps=6"}) {}

  // Gradients of every step, then weights, of rank 0.
  std::vector<float> values_of(const Settings& settings, int steps = 2) {
    std::vector<float> values;
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate& predicted) {
      const bool is_first = trainer.mesh().world().rank() == 0;
      const auto add = [&](const Tensor& tensor) {
        std::vector<float> host(static_cast<size_t>(tensor.elements()));
        copy_floats_to_host(trainer.stream(), host, tensor);
        if (is_first) values.insert(values.end(), host.begin(), host.end());
      };
      trainer.on_gradients = [&](int64_t) {
        for (const OwnedSlice& slice : trainer.params().owned()) add(slice.grad);
      };
      for (int step = 0; step < steps; ++step) trainer.train_step();
      trainer.finish_update();
      for (const OwnedSlice& slice : trainer.params().owned()) add(slice.value);
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(settings, " ");
    });
    return values;
  }
  void expect_no_bug(const Settings& settings) {
    const VerifyReport report = verify(settings);
    EXPECT_NE(report.verdict, Verdict::Bug) << join(settings, " ") << "\n"
                                            << join(report.problems, "\n");
  }
};

class SlowFp8ExpertsTest : public Fp8ExpertsTest {};

TEST_F(Fp8ExpertsTest, LossesAreNearThoseOfFp32AndNotEqual) {
  for (const Settings& family : {kBeside, kLatent}) {
    const std::vector<double> floats = losses_of(family, 3), bf16 = losses_of(family + kInBf16, 3);
    for (const Settings& recipe : kExpertRecipes) {
      const std::vector<double> losses = losses_of(family + recipe, 3);
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], floats[i], 1e-2) << join(family + recipe, " ");
        EXPECT_NE(losses[i], bf16[i]) << join(family + recipe, " ");
      }
    }
  }
}

// Without experts in fp8 only attention would be, in both.
TEST_F(Fp8ExpertsTest, ExpertsKeepBytesOfRows) {
  const Settings wide = {"model.layers=8", "model.expert_ffn=64", "model.seq=128",
                         "memory.recompute=none"};
  const auto activations = [&](const Settings& precision) {
    return preflight(config_of(wide + precision), 0).memory[0].activations;
  };
  for (const Settings& recipe : kExpertRecipes)
    EXPECT_LT(static_cast<double>(activations(recipe)),
              0.9 * static_cast<double>(activations(kInBf16)))
        << join(recipe, " ");
}

TEST_F(Fp8ExpertsTest, MemoryIsThePredictedOne) {
  for (const Settings& recipe : kExpertRecipes)
    for (const Settings& layout :
         {Settings{}, Settings{"parallel.dp=2", "parallel.ep=2"},
          Settings{"parallel.tp=2", "parallel.ep=2"},
          Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=cheap"},
          Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"}})
      expect_predicted_memory(kBeside + recipe + layout);
}

TEST_F(SlowFp8ExpertsTest, RecomputationReplaysScalesToTheBit) {
  for (const Settings& recipe : kExpertRecipes)
    for (const Settings& family : {kBeside, kLatent})
      for (const Settings& layout :
           {Settings{}, Settings{"parallel.dp=2", "parallel.ep=2"}, shared_by(2)}) {
        const std::vector<float> kept = values_of(family + recipe + layout);
        EXPECT_GT(kept.size(), 1000u);
        for (const char* recompute : {"cheap", "selective", "full"})
          EXPECT_TRUE(values_of(family + recipe + layout +
                                Settings{concat("memory.recompute=", recompute)}) == kept)
              << recompute << " " << join(family + recipe + layout, " ");
      }
}

// A gather of quantised shards gives what a rank quantises that has all of a weight.
TEST_F(SlowFp8ExpertsTest, ShardsHaveTheScalesOfTheWhole) {
  for (const Settings& recipe : kExpertRecipes)
    for (const Settings& experts : {Settings{}, Settings{"parallel.ep=2"}}) {
      const Settings base = kBeside + recipe + experts + Settings{"batch.accumulation=1"};
      const std::vector<double> whole = losses_of(base + Settings{"parallel.dp=4"}, 3);
      for (const char* stage : {"1", "2", "3"})
        EXPECT_EQ(
            losses_of(base + Settings{"parallel.shard=4", concat("parallel.zero=", stage)}, 3),
            whole)
            << stage << " " << join(recipe + experts, " ");
    }
}

TEST_F(Fp8ExpertsTest, EachExpertHasHistoriesOfItsOwn) {
  const auto histories = [&](const Settings& layout) {
    std::vector<float> values;
    on_ranks(config_of(kWithHistory + layout), [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      for (const NamedTensor& layer : trainer.params().delayed().state()) {
        const bool is_expert = layer.name.find(".experts.") != std::string::npos;
        EXPECT_EQ(layer.tensor.dim(0), is_expert ? 3 * 8 : 3) << layer.name;
        if (!is_expert || trainer.mesh().world().rank() != 0) continue;
        std::vector<float> own(static_cast<size_t>(layer.tensor.elements()));
        copy_to_host<float>(trainer.stream(), own, layer.tensor);
        values.insert(values.end(), own.begin(), own.end());
      }
    });
    return values;
  };
  const std::vector<float> one = histories({"batch.accumulation=2"});
  ASSERT_EQ(one.size(), 2U * 2 * 24 * 4);  // blocks, weights
  // A token has two experts, so at most two have the same largest value.
  for (size_t kind = 0; kind < 3; ++kind) {
    std::set<float> distinct;
    for (size_t row = 8 * kind; row < 8 * kind + 8; ++row) distinct.insert(one[row * 4 + 1]);
    EXPECT_GE(distinct.size(), 4U) << kind;
  }
  // All ranks have those of all experts. Weights are those of the first step in any layout.
  const std::vector<float> spread =
      histories({"parallel.dp=2", "parallel.ep=2", "batch.accumulation=1"});
  ASSERT_EQ(spread.size(), one.size());
  for (size_t layer = 0; layer < 4; ++layer)
    for (size_t row = 8; row < 16; ++row)
      EXPECT_EQ(spread[(layer * 24 + row) * 4], one[(layer * 24 + row) * 4]) << layer << " " << row;
}

TEST_F(SlowFp8ExpertsTest, VerifyHoldsForEachRecipe) {
  for (const Settings& recipe : kExpertRecipes)
    for (const Settings& layout :
         {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.tp=2", "parallel.ep=2"},
          Settings{"parallel.tp=2"}, Settings{"parallel.dp=2", "parallel.etp=2"},
          Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
          Settings{"parallel.dp=4", "parallel.ep=4", "parallel.ep_node=2"},
          Settings{"parallel.pp=2", "parallel.dp=2", "parallel.ep=2"}})
      expect_no_bug(kBeside + recipe + layout);
}

// 16 choices among the experts of 8 ranks leave some without rows, in nearly every step.
TEST_F(Fp8ExpertsTest, ARankWithoutRowsIsANormalCase) {
  for (const Settings& recipe : kExpertRecipes)
    expect_no_bug(recipe + Settings{"model.seq=2", "model.experts_per_token=1", "parallel.dp=8",
                                    "parallel.ep=8", "batch.micro=1", "batch.accumulation=1"});
}

TEST_F(SlowFp8ExpertsTest, VerifyHoldsForLatentAttention) {
  for (const Settings& recipe : kExpertRecipes)
    for (const Settings& layout :
         {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.tp=2", "parallel.ep=2"}})
      expect_no_bug(kLatent + recipe + layout);
}

TEST_F(SlowFp8ExpertsTest, VerifyFindsWrongScales) {
  for (const Settings& recipe : kExpertRecipes)
    EXPECT_EQ(verify(kBeside + recipe +
                     Settings{"parallel.dp=2", "parallel.ep=2", "model.expert_ffn=64",
                              "fault.inject=wrong_scale"})
                  .verdict,
              Verdict::Bug)
        << join(recipe, " ");
}

TEST_F(SlowFp8ExpertsTest, AResumedRunGoesOnBitForBitAndInOtherLayouts) {
  for (const Settings& recipe : kExpertRecipes)
    EXPECT_EQ(loss_over(kBeside + recipe, {{}, {}}), loss_over(kBeside + recipe, {{}}))
        << join(recipe, " ");
  EXPECT_NEAR(loss_over(kBeside + kWithHistory + Settings{"batch.accumulation=4"},
                        {{}, {"parallel.dp=2", "parallel.ep=2", "batch.accumulation=2"}}),
              loss_over(kBeside + kWithHistory + Settings{"batch.accumulation=4"}, {{}}), 2e-3);
}

}  // namespace
}  // namespace sextant

// Features of model families in whole runs: in any layout a model is what it is on one rank.
#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

const Settings kYarn = {"model.rope_type=yarn", "model.rope_factor=4", "model.rope_original_seq=8",
                        "model.rope_beta_fast=4"};

// One of each kind of parallelism.
std::vector<Settings> some_layouts() {
  return {{"parallel.tp=2", "parallel.dp=2"},
          context(2, "ring") + Settings{"parallel.tp=2"},
          {"parallel.pp=2", "parallel.shard=2", "parallel.zero=1"},
          {"parallel.shard=4", "parallel.zero=3"}};
}

const Settings kBiased = {"model.family=llama", "model.kv_heads=4", "model.attention_bias=true",
                          "model.mlp_bias=true"};
const Settings kQwen2 = {"model.family=qwen2", "model.kv_heads=2"};
const Settings kWindowed = {"model.family=mistral", "model.kv_heads=4", "model.sliding_window=5"};

class SlowRope : public LayoutTest {};
class SlowBiases : public LayoutTest {};
class SlowWindow : public LayoutTest {};

TEST_F(SlowRope, ScalingOfEachTypeIsTheSameInEveryLayout) {
  const std::vector<Settings> layouts = some_layouts();
  expect_right(kGrouped + kYarn + layouts[0]);
  expect_right(kNormed + kYarn + layouts[1]);
  expect_right(kGrouped + Settings{"model.rope_type=linear", "model.rope_factor=3"} + layouts[2]);
}

TEST_F(SlowRope, ScalingOfEachTypeGivesAnotherModel) {
  const double plain = losses_of(kGrouped, 1)[0];
  const double linear =
      losses_of(kGrouped + Settings{"model.rope_type=linear", "model.rope_factor=3"}, 1)[0];
  const double yarn = losses_of(kGrouped + kYarn, 1)[0];
  const double hotter = losses_of(
      kGrouped + kYarn + Settings{"model.rope_mscale=3", "model.rope_mscale_all_dim=1"}, 1)[0];
  EXPECT_NE(linear, plain);
  EXPECT_NE(yarn, plain);
  EXPECT_NE(yarn, linear);
  EXPECT_NE(hotter, yarn);
}

TEST_F(SlowRope, SettingsThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of(kGrouped + kYarn + Settings{"model.rope_beta_slow=5"}), Config,
               "model.rope_beta_slow = 5 must be below model.rope_beta_fast = 4");
  EXPECT_ERROR(config_of(kGrouped + kYarn + Settings{"model.rope_theta=1"}), Config,
               "model.rope_theta = 1 with model.rope_type = yarn: takes a number above 1");
  EXPECT_ERROR(config_of(kGrouped + Settings{"model.rope_type=dynamic"}), Config, "llama3, linear");
}

// Biases are zero at first: after some steps at a high rate they matter, and verify looks at them.
TEST_F(SlowBiases, AreTheSameInEveryLayout) {
  std::vector<Settings> layouts = some_layouts();
  layouts.push_back(shared_by(8));  // copies of key-value heads, and of their biases
  layouts.push_back(shared_by(4) + Settings{"parallel.sequence=false"});
  layouts.push_back(shared_by(2) + Settings{"parallel.tp_overlap=true"});
  layouts.push_back({"parallel.pp=2", "parallel.schedule=zb-h1", "parallel.tp=2"});
  GridSample sample(5);
  for (const Settings& model : {kBiased, kQwen2, kNormed + Settings{"model.attention_bias=true"}})
    for (const Settings& layout : layouts)
      if (sample.takes()) expect_right(model + layout);
  EXPECT_NE(verify(kBiased + Settings{"parallel.tp=2", "precision.compute=fp8"}).verdict,
            Verdict::Bug);
}

TEST_F(SlowBiases, ThatARankAddsToEachTermAreFound) {
  const Settings wrong = {"parallel.tp=2", "fault.inject=bias_everywhere:rank=1", "optim.lr=0.1"};
  EXPECT_FALSE(wrong_tensors(kBiased + wrong).empty());
}

TEST_F(SlowBiases, HaveThePredictedMemoryAndGoOnInAnyLayout) {
  for (const Settings& model : {kBiased, kQwen2}) {
    expect_predicted_memory(model + shared_by(4));
    expect_predicted_memory(model + Settings{"parallel.shard=3", "parallel.zero=3"});
    const Settings one = {"batch.accumulation=4"};
    const Settings sharded = {"parallel.shard=2", "parallel.zero=3", "parallel.tp=2",
                              "batch.accumulation=2"};
    const double wanted = loss_over(model, {one});
    EXPECT_NEAR(loss_over(model, {sharded, one}), wanted, 1e-5 * wanted);
    EXPECT_NEAR(loss_over(model, {one, sharded}), wanted, 1e-5 * wanted);
  }
}

TEST_F(SlowWindow, IsTheSameInEveryLayout) {
  std::vector<Settings> layouts = some_layouts();
  for (const char* kind : {"ring", "ulysses", "allgather", "ring+ulysses"})
    for (const char* window : {"model.sliding_window=1", "model.sliding_window=9"})
      layouts.push_back(context(4, kind) + Settings{"parallel.ulysses=2", window});
  layouts.push_back(context(2, "ring") + Settings{"memory.recompute=selective"});
  layouts.push_back({"model.family=mixtral", "model.experts=4", "model.expert_ffn=16",
                     "parallel.dp=2", "parallel.ep=2"});
  layouts.push_back(context(2, "allgather") + Settings{"model.family=qwen2"});
  GridSample sample(3);
  for (const Settings& layout : layouts)
    if (sample.takes()) expect_right(kWindowed + layout);
}

TEST_F(SlowWindow, HasThePredictedMemory) {
  for (const char* kind : {"ring", "ulysses", "allgather"})
    expect_predicted_memory(kWindowed + context(2, kind));
  expect_predicted_memory(kWindowed + Settings{"parallel.pp=2", "parallel.tp=2"});
}

TEST_F(SlowWindow, AsLongAsTheSequenceIsNone) {
  const double none = losses_of(kWindowed + Settings{"model.sliding_window=0"}, 1)[0];
  EXPECT_EQ(losses_of(kWindowed + Settings{"model.sliding_window=16"}, 1)[0], none);
  EXPECT_EQ(losses_of(kWindowed + Settings{"model.sliding_window=100"}, 1)[0], none);
  EXPECT_NE(losses_of(kWindowed + Settings{"model.sliding_window=15"}, 1)[0], none);
}

}  // namespace
}  // namespace sextant

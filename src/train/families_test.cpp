// Features of model families in whole runs: in any layout a model is what it is on one rank.
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

class Rope : public LayoutTest {};

TEST_F(Rope, ScalingOfEachTypeIsTheSameInEveryLayout) {
  const std::vector<Settings> layouts = some_layouts();
  expect_right(kGrouped + kYarn + layouts[0]);
  expect_right(kNormed + kYarn + layouts[1]);
  expect_right(kGrouped + Settings{"model.rope_type=linear", "model.rope_factor=3"} + layouts[2]);
}

TEST_F(Rope, ScalingOfEachTypeGivesAnotherModel) {
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

TEST_F(Rope, SettingsThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of(kGrouped + kYarn + Settings{"model.rope_beta_slow=5"}), Config,
               "model.rope_beta_slow = 5 must be below model.rope_beta_fast = 4");
  EXPECT_ERROR(config_of(kGrouped + kYarn + Settings{"model.rope_theta=1"}), Config,
               "model.rope_theta = 1 with model.rope_type = yarn: takes a number above 1");
  EXPECT_ERROR(config_of(kGrouped + Settings{"model.rope_type=dynamic"}), Config, "llama3, linear");
}

}  // namespace
}  // namespace sextant

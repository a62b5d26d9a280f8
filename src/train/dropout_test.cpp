// model.dropout in whole steps: the same mask in every layout, a new one in every step, none in
// evaluation.
#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

const Settings kTiedDropout = {"model.tied=true"}, kNone = {"model.dropout=0"};
Settings piped(const std::string& schedule) {
  return {"parallel.pp=2", "parallel.schedule=" + schedule, "model.layers=4",
          "batch.accumulation=4"};
}

class DropoutTest : public LayoutTest {
 protected:
  DropoutTest() : LayoutTest({"model.tied=false", "model.dropout=0.2", "batch.accumulation=1"}) {}

  void expect_equal(const Settings& settings) {
    EXPECT_EQ(verify(settings).verdict, Verdict::Equal) << join(settings, " ");
  }
  // Losses of `steps` steps on the first rank.
  std::vector<double> losses(const Settings& settings, int steps) {
    std::vector<double> all;
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < steps; ++step) {
        const double loss = trainer.train_step().loss;
        if (trainer.mesh().world().rank() == 0) all.push_back(loss);
      }
    });
    return all;
  }
};

TEST_F(DropoutTest, DataRanksHaveTheBitsOfOne) {
  for (const Settings& model : {kGpt, kGrouped + kTiedDropout}) {
    expect_equal(model + Settings{"parallel.dp=2"});
    for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"})
      expect_equal(model + Settings{"parallel.shard=2", zero});
  }
  // Some rows are padding.
  expect_equal(kGpt + Settings{"parallel.dp=3", "batch.global=5"});
}

TEST_F(DropoutTest, PipelinesHaveTheBitsOfOneRank) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-v", "interleaved"})
    expect_equal(kGpt + piped(schedule));
  expect_equal(kNormed + piped("zb-v"));
  const VerifyReport tied = verify(kGpt + kTiedDropout + piped("1f1b"));
  EXPECT_NE(tied.verdict, Verdict::Bug);
  EXPECT_EQ(tied.loss_max_rel, 0);
}

TEST_F(DropoutTest, RanksThatShareLayersDifferByRoundingAlone) {
  for (const Settings& model : {kGpt, kGrouped + kTiedDropout, kNormed})
    for (const Settings& tokens : {kWhole, kOwn}) expect_right(model + tokens + shared_by(2));
  expect_right(kGrouped + kOwn + shared_by(4));
  expect_right(kGpt + kOwn + shared_by(2) + piped("zb-h1"));
  expect_right(kGrouped + kTiedDropout + shared_by(2) +
               Settings{"parallel.shard=2", "parallel.zero=3"});
}

TEST_F(DropoutTest, RanksThatShareSequencesDropTheSameToo) {
  for (const char* kind : {"ring", "ulysses", "allgather"})
    expect_right(kGrouped + context(2, kind));
  expect_right(kGpt + context(4, "ring+ulysses"));
  expect_right(kGpt + kTiedDropout + kOwn + shared_by(2) + context(2, "ring") +
               Settings{"parallel.dp=2"});
  expect_right(kNormed + context(2, "ring") + piped("zb-h1"));
}

TEST_F(DropoutTest, OwnTokensChangeNoBitOfTheLoss) {
  const VerifyReport report = verify(kGrouped + kOwn + shared_by(4), "tp=4,sequence=false");
  EXPECT_NE(report.verdict, Verdict::Bug);
  EXPECT_EQ(report.loss_max_rel, 0);
}

TEST_F(DropoutTest, OtherMicroBatchesHaveTheSameMasks) {
  const Settings once = {"batch.micro=4"}, cut = {"batch.micro=1", "batch.accumulation=4"};
  const std::vector<double> whole = losses(once, 3), pieces = losses(cut, 3),
                            none = losses(kNone + once, 3);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i], pieces[i], 1e-6 * whole[i]);
    EXPECT_GT(std::abs(whole[i] - none[i]), 1e-4 * whole[i]);
  }
}

// One sample and constant weights: only the mask can change.
TEST_F(DropoutTest, EveryStepHasItsOwnMaskAlsoAfterAResume) {
  replace_file(disk_, dir_ / "text", "the same again, and again");
  const Settings still = {"data.kind=text",       "data.path=" + (dir_ / "text"),
                          "data.eval_fraction=0", "optim.lr=0",
                          "batch.micro=1",        "optim.schedule=constant"};
  const std::vector<double> all = losses(still, 3), none = losses(still + kNone, 2);
  EXPECT_EQ(none[0], none[1]);
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[1], all[2]);
  run(resolve(still + Settings{"train.steps=2"}));
  RunOptions resumed;
  resumed.resume = true;
  EXPECT_EQ(*run(resolve(still + Settings{"train.steps=3"}), resumed).loss_last, all[2]);
}

TEST_F(DropoutTest, AResumedRunEndsInTheBitsOfAnUnbrokenOne) {
  const Settings model = kGrouped + Settings{"optim.schedule=constant", "parallel.dp=2"};
  const double whole = losses(model, 4).back();
  run(resolve(model + Settings{"train.steps=2"}));
  RunOptions resumed;
  resumed.resume = true;
  EXPECT_EQ(*run(resolve(model + Settings{"train.steps=4"}), resumed).loss_last, whole);
  // Dropout is not part of the model: a run may resume with less.
  run(resolve(model + kNone + Settings{"train.steps=5"}), resumed);
}

TEST_F(DropoutTest, IsOffInEvaluation) {
  std::vector<double> evaluated;
  for (const Settings& dropout : {kNone, Settings{"model.dropout=0.5"}})
    on_ranks(config_of(kGrouped + dropout + kEvaluates),
             [&](Trainer& trainer, const MemoryEstimate&) {
               evaluated.push_back(trainer.evaluate().loss);
               trainer.compute_gradients();
               evaluated.push_back(trainer.evaluate().loss);
             });
  for (const double loss : evaluated) EXPECT_EQ(loss, evaluated[0]);
}

TEST_F(DropoutTest, HoldsWhatWasPredictedToTheByte) {
  for (const Settings& settings :
       {kGpt, kGrouped + Settings{"parallel.shard=2", "parallel.zero=3"},
        kGpt + kOwn + shared_by(2), kGpt + kWhole + shared_by(4), kGrouped + kOwn + shared_by(8),
        kNormed + piped("zb-v"),
        kGpt + Settings{"memory.logits=chunked", "model.vocab=5000", "data.kind=synthetic"},
        kGrouped + context(2, "ring"), kGpt + kOwn + shared_by(2) + context(2, "ulysses"),
        kNormed + kOwn + shared_by(2) + piped("zb-h1"), kGpt + kTiedDropout + piped("interleaved"),
        kGpt + piped("1f1b") + Settings{"optim.post_validation=true", "optim.clip=1e-3"}})
    expect_predicted_memory(settings);
}

TEST_F(DropoutTest, OneMaskForAllPlacesIsABugAndNamed) {
  for (const Settings& layout : {Settings{"parallel.dp=2"}, kGrouped + kOwn + shared_by(2),
                                 piped("1f1b"), Settings{"parallel.dp=2"} + shared_by(2)}) {
    const VerifyReport report = verify(layout + Settings{"fault.inject=same_mask:step=2"});
    EXPECT_EQ(report.verdict, Verdict::Bug) << join(layout, " ");
    for (const TensorVerdict& tensor : report.tensors)
      EXPECT_EQ(tensor.problem.find("step 2: gradient off"), 0u) << tensor.name;
  }
  EXPECT_EQ(verify({"parallel.dp=2", "fault.inject=same_mask:rank=1"}).verdict, Verdict::Bug);
  EXPECT_ERROR(verify(kNone + Settings{"fault.inject=same_mask"}), Config, "model.dropout above 0");
  EXPECT_ERROR(verify({"fault.inject=same_mask:group=1"}), Config, "same_mask takes rank=, step=");
}

class SlowDropout : public DropoutTest {};

TEST_F(SlowDropout, GridOfFamiliesAndLayouts) {
  GridSample sample(11);
  for (const Settings& model : {kGpt, kGrouped, kNormed})
    for (const Settings& tied : {Settings{"model.tied=true"}, Settings{"model.tied=false"}})
      for (const Settings& layer :
           {Settings{}, shared_by(2) + kWhole, shared_by(2) + kOwn, shared_by(4) + kWhole,
            shared_by(4) + kOwn, shared_by(8) + kOwn})
        for (const Settings& other :
             {Settings{}, Settings{"parallel.dp=2"},
              Settings{"parallel.shard=2", "parallel.zero=1"},
              Settings{"parallel.shard=2", "parallel.zero=2"},
              Settings{"parallel.shard=2", "parallel.zero=3"}, piped("1f1b"), piped("zb-v"),
              piped("dualpipe"), piped("interleaved-zb")})
          if (sample.takes()) expect_right(model + tied + layer + other);
}

TEST_F(SlowDropout, EveryScheduleHoldsWhatWasPredictedToTheByte) {
  GridSample sample(5);
  for (const Piped& schedule : every_schedule(2))
    for (const Settings& model : {kGpt, kNormed + kTiedDropout})
      for (const Settings& layer : {Settings{}, shared_by(2) + kWhole, shared_by(2) + kOwn})
        if (sample.takes())
          expect_predicted_memory(model + layer + schedule.settings() + Settings{"model.layers=4"});
}

}  // namespace
}  // namespace sextant

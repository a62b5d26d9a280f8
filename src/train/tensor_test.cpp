// Tensor parallelism: results of one rank, exact memory in bytes, exact traffic in elements.
#include <algorithm>
#include <cmath>

#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

class TensorTest : public LayoutTest {};

TEST_F(TensorTest, GivesTheGradientsOfOneRank) {
  for (const Settings& model : {kGpt, kGrouped, kNormed})
    for (const Settings& tokens : {kWhole, kOwn}) expect_right(model + tokens + shared_by(2));
}

TEST_F(TensorTest, HasKeyValueHeadsOnSeveralRanksWhenThereAreFewerOfThem) {
  for (const Settings& tokens : {kWhole, kOwn}) {
    expect_right(kGrouped + tokens + shared_by(8));
    expect_right(kNormed + tokens + shared_by(4) + Settings{"model.tied=true"});
  }
}

TEST_F(TensorTest, ARankMayHaveNothingButPaddingOfTheVocabulary) {
  // 130 ids on 4 ranks of 128 rows each.
  expect_right(kGpt + kOwn + shared_by(4) + Settings{"model.vocab=130", "data.kind=synthetic"});
  expect_right(kGpt + kWhole + shared_by(4) +
               Settings{"model.vocab=130", "data.kind=synthetic", "memory.logits=chunked"});
}

TEST_F(TensorTest, ZLossIsPartOfTheTrainingLossInEveryLayoutAndOfNoEvaluation) {
  const Settings z = {"train.z_loss=0.1"};
  expect_right(kGrouped + kOwn + shared_by(4) + z);
  std::vector<double> loss, evaluated;
  for (const Settings& settings : {Settings{}, z})
    on_ranks(config_of(kGrouped + settings + kEvaluates),
             [&](Trainer& trainer, const MemoryEstimate&) {
               evaluated.push_back(trainer.evaluate().loss);
               loss.push_back(trainer.compute_gradients());
             });
  EXPECT_EQ(evaluated[0], evaluated[1]);
  // Initial logits are small: the log-sum-exp is near that of equal logits.
  EXPECT_NEAR(loss[1] - loss[0], 0.1 * std::pow(std::log(259), 2), 0.2);
}

TEST_F(TensorTest, OwnTokensChangeNoBitOfTheLossAndOnlySumsOfTokensInTheGradients) {
  const VerifyReport report = verify(kGrouped + kOwn + shared_by(4), "tp=4,sequence=false");
  EXPECT_NE(report.verdict, Verdict::Bug);
  EXPECT_EQ(report.loss_max_rel, 0);
  for (const TensorVerdict& tensor : report.tensors)
    EXPECT_TRUE(tensor.bitwise || tensor.name.find("norm") != std::string::npos) << tensor.name;
}

TEST_F(TensorTest, GoesWithEveryOtherAxis) {
  for (const Settings& other :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=1"},
        Settings{"parallel.shard=2", "parallel.zero=3"},
        Settings{"parallel.pp=2", "parallel.schedule=1f1b"},
        Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"}})
    expect_right(kGrouped + shared_by(2) + other);
  expect_right(kNormed + shared_by(2) +
               Settings{"parallel.pp=2", "parallel.schedule=zb-h1", "parallel.shard=2",
                        "parallel.zero=2", "model.tied=true"});
}

TEST_F(TensorTest, ACopyThatIsNotSummedIsABugAndNamed) {
  const Settings layout = kGrouped + kOwn + shared_by(2);
  std::vector<std::string> norms;
  for (const TensorVerdict& tensor : verify(layout).tensors)
    if (tensor.name.find("norm") != std::string::npos) norms.push_back(tensor.name);
  EXPECT_EQ(wrong_tensors(layout + Settings{"fault.inject=skip_copies:step=1"}), norms);
}

TEST_F(TensorTest, ACopyThatCountsInTheNormAgainIsABugOfTheNorm) {
  const VerifyReport report =
      verify(kGpt + kOwn + shared_by(4) + Settings{"fault.inject=count_copies"});
  EXPECT_EQ(report.verdict, Verdict::Bug);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("step 1, rank 0: gradient norm"), std::string::npos);
}

TEST_F(TensorTest, HoldsWhatWasPredictedToTheByte) {
  for (const Settings& settings :
       {kGpt + kOwn + shared_by(2), kGpt + kWhole + shared_by(4), kGrouped + kOwn + shared_by(8),
        kNormed + kOwn + shared_by(2) + Settings{"memory.logits=chunked", "model.vocab=5000"},
        kNormed + kOwn + shared_by(2) + Settings{"parallel.shard=2", "parallel.zero=2"},
        kGrouped + kOwn + shared_by(2) + Settings{"parallel.pp=2", "parallel.schedule=zb-h1"}})
    expect_predicted_memory(settings);
}

// A unit is (t - 1) / t of a micro-batch's activations: 8 per layer and micro-batch without
// sequence parallelism; with it 10, as backward gathers the inputs again.
TEST_F(TensorTest, SendsByTheFormulasOfALayer) {
  constexpr int kRanks = 4;
  for (const auto& [tokens, units] : {std::pair{kWhole, 8}, {kOwn, 10}}) {
    std::vector<int64_t> sent;
    for (const char* layers : {"model.layers=1", "model.layers=3"})
      sent.push_back(
          elements_sent(kGrouped + tokens + shared_by(kRanks) + Settings{layers},
                        {Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter}));
    const Config config = config_of(kGrouped + tokens + shared_by(kRanks));
    const int64_t micro = config.batch.micro * config.model.seq * config.model.hidden;
    // Sequence parallelism also sums the norms' gradients at the end of the step.
    const int64_t norms = units == 10 ? 2 * 2 * config.model.hidden * 2 * (kRanks - 1) : 0;
    EXPECT_EQ(sent[1] - sent[0],
              2 * config.batch.accumulation * units * micro * (kRanks - 1) + norms);
  }
}

TEST_F(TensorTest, ItsCheckpointGoesOnInOtherLayouts) {
  const double whole = loss_over(kGrouped, {{}});
  EXPECT_NEAR(loss_over(kGrouped, {shared_by(4), shared_by(1)}), whole, 1e-6 * whole);
  EXPECT_NEAR(
      loss_over(
          kGrouped,
          {{}, shared_by(8), shared_by(2) + kWhole, shared_by(2) + Settings{"parallel.pp=2"}}),
      whole, 1e-6 * whole);
}

TEST_F(TensorTest, ADegreeThatCannotBeIsRefusedWithOneThatWorks) {
  const auto refused = [&](const Settings& settings, const std::string& text) {
    EXPECT_ERROR(config_of(settings), Config, text);
  };
  refused(kGpt + shared_by(3), "parallel.tp = 2 works");
  refused(kGrouped + shared_by(16), "parallel.tp = 8 works");
  refused(kGpt + shared_by(4) + Settings{"model.ffn=50"}, "model.ffn = 50: parallel.tp = 2 works");
  refused(kGpt + shared_by(8) + Settings{"model.seq=12"}, "sequence = false");
}

class SlowTensor : public TensorTest {};

TEST_F(SlowTensor, GridOfDegreesFamiliesAndOtherAxes) {
  GridSample sample(11);
  for (const Settings& model : {kGpt, kGrouped, kNormed})
    for (const Settings& tied : {Settings{"model.tied=true"}, Settings{"model.tied=false"}})
      for (const int ranks : {2, 4, 8})
        for (const Settings& tokens : {kWhole, kOwn})
          for (const Settings& other :
               {Settings{}, Settings{"parallel.dp=2"},
                Settings{"parallel.shard=2", "parallel.zero=1"},
                Settings{"parallel.shard=2", "parallel.zero=2"},
                Settings{"parallel.shard=2", "parallel.zero=3"}, Settings{"parallel.pp=2"},
                Settings{"parallel.pp=2", "parallel.schedule=dualpipe", "batch.accumulation=4"}})
            if (sample.takes()) expect_right(model + tied + shared_by(ranks) + tokens + other);
}

}  // namespace
}  // namespace sextant

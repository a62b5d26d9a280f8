// Tensor parallel communication overlapped with compute (parallel.tp_overlap): results of one rank,
// traffic as without overlap, exact memory in bytes.
#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

// On two ranks of 4608 rows each: two chunks of columns.
const Settings kChunks = {"memory.logits=chunked", "model.vocab=9000"};

class TensorOverlap : public LayoutTest {};

Settings overlapped(int ranks) {
  return {"parallel.tp=" + std::to_string(ranks), "parallel.tp_overlap=true"};
}

TEST_F(TensorOverlap, GivesTheGradientsOfOneRank) {
  for (const Settings& model : {kGpt, kGrouped, kNormed}) expect_right(model + overlapped(2));
  expect_right(kGpt + overlapped(4) + Settings{"model.tied=false"});
  expect_right(kNormed + overlapped(4) + Settings{"model.tied=true"});
  expect_right(kGrouped + overlapped(8));
  expect_right(kGrouped + overlapped(2) + kChunks);
  expect_right(kGpt + overlapped(2) + Settings{"model.dropout=0.1"});
}

// Sums of two terms have no order, and rows of a product are independent: only weight gradients
// that are summed over tokens in order of arrival can differ.
TEST_F(TensorOverlap, OnTwoRanksChangesOnlyTheWeightGradientsOfGatheredInputs) {
  const VerifyReport report = verify(kGpt + overlapped(2) + Settings{"model.tied=false"}, "tp=2");
  EXPECT_NE(report.verdict, Verdict::Bug);
  EXPECT_EQ(report.loss_max_rel, 0);
  for (const TensorVerdict& tensor : report.tensors) {
    bool is_of_gathered = false;
    for (const char* part : {".qkv.", ".up.", "head.output."})
      is_of_gathered = is_of_gathered || tensor.name.find(part) != std::string::npos;
    EXPECT_TRUE(is_of_gathered || tensor.bitwise) << tensor.name;
  }
}

TEST_F(TensorOverlap, GivesTheSameBitsOnEveryRun) {
  const VerifyReport report = verify(kNormed + overlapped(4), "tp=4,tp_overlap=true");
  EXPECT_EQ(report.verdict, Verdict::Equal);
}

TEST_F(TensorOverlap, GoesWithEveryOtherAxis) {
  for (const Settings& other :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=1"},
        Settings{"parallel.shard=2", "parallel.zero=3"},
        Settings{"parallel.pp=2", "parallel.schedule=1f1b"},
        Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"},
        Settings{"parallel.pp=2", "parallel.schedule=zb-h1", "optim.post_validation=true"},
        Settings{"parallel.cp=2"}, Settings{"parallel.cp=2", "parallel.cp_kind=ulysses"}})
    expect_right(kGrouped + overlapped(2) + other);
  expect_right(kNormed + overlapped(2) +
               Settings{"parallel.pp=2", "parallel.schedule=zb-h1", "parallel.shard=2",
                        "parallel.zero=2", "model.tied=true"});
}

TEST_F(TensorOverlap, HoldsWhatWasPredictedToTheByte) {
  for (const Settings& settings :
       {kGpt + overlapped(2), kGpt + overlapped(4), kGrouped + overlapped(8),
        kNormed + overlapped(2) + kChunks, kGpt + overlapped(4) + Settings{"memory.logits=chunked"},
        kNormed + overlapped(4) + Settings{"parallel.shard=2", "parallel.zero=2"},
        kGrouped + overlapped(2) + Settings{"parallel.pp=2", "parallel.schedule=zb-h1"},
        kGpt + overlapped(2) + Settings{"parallel.cp=2"},
        kGpt + overlapped(2) + Settings{"model.dropout=0.1"}})
    expect_predicted_memory(settings);
}

TEST_F(TensorOverlap, HoldsLessThanMovesThatWait) {
  const auto predicted = [&](const Settings& settings) {
    return preflight(config_of(settings), 0).memory[0].activations;
  };
  EXPECT_LT(predicted(kGrouped + overlapped(4)), predicted(kGrouped + Settings{"parallel.tp=4"}));
}

// The ten collectives of a layer are messages now, with the same number of elements.
TEST_F(TensorOverlap, SendsTenUnitsALayer) {
  constexpr int kRanks = 4;
  std::vector<int64_t> messages, collectives;
  for (const char* layers : {"model.layers=1", "model.layers=3"}) {
    const Settings settings = kGrouped + overlapped(kRanks) + Settings{layers};
    messages.push_back(elements_sent(settings, {Operation::Send}));
    collectives.push_back(
        elements_sent(settings, {Operation::AllGather, Operation::ReduceScatter}));
  }
  const Config config = config_of(kGrouped);
  // Over the ranks, units of (t - 1) / t of a micro-batch's activations add up to t - 1 times them.
  const int64_t micro = config.batch.micro * config.model.seq * config.model.hidden;
  const int64_t unit = config.batch.accumulation * micro * (kRanks - 1);
  EXPECT_EQ(messages[1] - messages[0], 2 * 10 * unit);
  EXPECT_EQ(collectives[1], collectives[0]);
  EXPECT_EQ(messages[0], (10 + 3) * unit);  // and those of the head
}

TEST_F(TensorOverlap, IsRefusedWhereNothingMovesInPieces) {
  EXPECT_ERROR(config_of(kGpt + Settings{"parallel.tp_overlap=true"}), Config,
               "parallel.tp_overlap = true needs tensor parallel: parallel.tp = 2 or more");
  EXPECT_ERROR(config_of(kGpt + overlapped(2) + Settings{"parallel.sequence=false"}), Config,
               "sequence = true");
  EXPECT_ERROR(verify(kGpt + overlapped(2), "tp=2,sequence=false,tp_overlap=true"), Config,
               "sequence = true");
}

class SlowTensorOverlap : public TensorOverlap {};

TEST_F(SlowTensorOverlap, GridOfDegreesFamiliesAndOtherAxes) {
  GridSample sample(7);
  for (const Settings& model : {kGpt, kGrouped, kNormed})
    for (const Settings& tied : {Settings{"model.tied=true"}, Settings{"model.tied=false"}})
      for (const int ranks : {2, 4, 8})
        for (const Settings& other :
             {Settings{}, Settings{"parallel.dp=2"},
              Settings{"parallel.shard=2", "parallel.zero=1"},
              Settings{"parallel.shard=2", "parallel.zero=2"},
              Settings{"parallel.shard=2", "parallel.zero=3"}, Settings{"parallel.pp=2"},
              Settings{"parallel.pp=2", "parallel.schedule=dualpipe", "batch.accumulation=4"},
              Settings{"parallel.cp=2"}, Settings{"memory.logits=chunked"}})
          if (sample.takes()) expect_right(model + tied + overlapped(ranks) + other);
}

}  // namespace
}  // namespace sextant

// Training in fp8: memory, equal bits where bf16 has them, scales that ranks agree on, resuming.
#include <algorithm>

#include "support/layouts.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

const Settings kFp8 = {"precision.compute=fp8"}, kBf16 = {"precision.compute=bf16"};

class Fp8Test : public LayoutTest {
 protected:
  Fp8Test() : LayoutTest({"run.threads=1", "train.steps=6"}) {}

  struct Outcome {
    std::vector<double> losses;
    int64_t sent = 0;  // bytes of rank 0 in the last step
  };
  Outcome train(const Settings& settings, int steps = 3) {
    const Config config = config_of(settings);
    std::vector<Outcome> of(static_cast<size_t>(world_size(config.parallel)));
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      Outcome& own = of[static_cast<size_t>(trainer.mesh().world().rank())];
      for (int step = 0; step < steps; ++step) {
        const StepRecord record = trainer.train_step();
        own.losses.push_back(record.loss);
        own.sent = record.comm_bytes;
      }
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(settings, " ");
    });
    return of[0];
  }
};

TEST_F(Fp8Test, ActivationsTakeLessThanInBf16) {
  const Settings deep = {"model.layers=8", "model.vocab=259", "model.seq=32"};
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    for (const char* recompute : {"none", "cheap", "selective"}) {
      const auto activations = [&](const Settings& precision) {
        return preflight(config_of(family + deep + precision +
                                   Settings{concat("memory.recompute=", recompute)}),
                         0)
            .memory[0]
            .activations;
      };
      const double ratio =
          static_cast<double>(activations(kFp8)) / static_cast<double>(activations(kBf16));
      if (std::string_view(recompute) == "cheap")
        EXPECT_LE(ratio, 1.05) << join(family, " ");  // what fp8 shrinks is not kept
      else
        EXPECT_LT(ratio, 0.92) << join(family, " ") << " " << recompute;
    }
}

// Linear layers gather tokens in one byte in place of two.
TEST_F(Fp8Test, SequenceParallelRanksGatherBytes) {
  const Settings layout = kGrouped + shared_by(2);
  const int64_t fp8 = train(layout + kFp8, 1).sent, bf16 = train(layout + kBf16, 1).sent;
  EXPECT_LT(fp8, 0.85 * static_cast<double>(bf16));
  EXPECT_GT(fp8, 0.6 * static_cast<double>(bf16));
}

// ZeRO-3 gathers the matrices of linear layers twice a micro-batch, in one byte in place of four.
TEST_F(Fp8Test, Zero3GathersWeightsInAQuarterOfFp32) {
  const Settings layout = kGrouped + Settings{"parallel.shard=2", "parallel.zero=3",
                                              "model.tied=false", "model.layers=4"};
  const auto sent = [&](int layers, const Settings& precision) {
    return train(layout + Settings{concat("model.layers=", layers)} + precision, 1).sent;
  };
  const Config config = config_of(layout);
  int64_t matrices = 0, vectors = 0;  // of a block
  for (const LayerSpec& layer : make_blueprint(config.model).layers)
    if (layer.name.starts_with("layers.0."))
      for (const ParamSpec& spec : layer.params)
        (spec.shape.size() == 2 ? matrices : vectors) += spec.elements();
  // What four more blocks send, on average over the ranks; gradients are fp32 in each.
  const int64_t micros = config.batch.accumulation;
  const auto more = [&](const Settings& precision) {
    return sent(8, precision) - sent(4, precision);
  };
  const int64_t floats = more({}), bytes = more(kFp8);
  const int64_t gathers = 2 * micros * 4;  // forward and backward of each, four blocks
  const int64_t saved = floats - bytes;
  // Half of 3 bytes of each element of a matrix, and of the 4 of a vector: their all-reduce of bf16
  // moves as much as a gather of fp32. The largest values of a step add a little.
  EXPECT_LE(saved, gathers * matrices * 3 / 2);
  EXPECT_GE(saved, gathers * matrices * 3 / 2 - gathers * vectors * 2 - 4 * 256);
}

TEST_F(Fp8Test, PipelinesAndZeroHaveTheLossesOfTheirPlainForm) {
  const Settings base = kGpt + kFp8 + Settings{"model.tied=false", "model.layers=4"};
  const Settings four = base + Settings{"batch.accumulation=4"};
  const Outcome one = train(four);
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v"})
    EXPECT_EQ(
        train(four + Settings{"parallel.pp=2", concat("parallel.schedule=", schedule)}).losses,
        one.losses)
        << schedule;
  const Settings two = base + Settings{"batch.accumulation=1", "batch.micro=4"};
  const Outcome ddp = train(two + Settings{"parallel.dp=2"});
  for (const char* stage : {"1", "2", "3"})
    EXPECT_EQ(train(two + Settings{"parallel.shard=2", concat("parallel.zero=", stage)}).losses,
              ddp.losses)
        << stage;
}

TEST_F(Fp8Test, RecomputationReplaysScalesToTheBit) {
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    for (const Settings& layout :
         {Settings{}, shared_by(2), context(2, "ring"), context(2, "ulysses")}) {
      const Outcome kept = train(family + kFp8 + layout);
      for (const char* recompute : {"cheap", "selective", "full"})
        EXPECT_EQ(
            train(family + kFp8 + layout + Settings{concat("memory.recompute=", recompute)}).losses,
            kept.losses)
            << recompute << " " << join(family + layout, " ");
    }
}

TEST_F(Fp8Test, LossesOfLayoutsAreNearThoseOfOneRankAndOfFp32) {
  const Outcome floats = train(kNormed), one = train(kNormed + kFp8);
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], floats.losses[i], 1e-2);
    EXPECT_NE(one.losses[i], floats.losses[i]);
  }
  for (const Settings& layout :
       {shared_by(2), shared_by(2) + Settings{"parallel.tp_overlap=true"}, context(2, "ring")}) {
    const Outcome other = train(kNormed + kFp8 + layout);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(other.losses[i], one.losses[i], 2e-3) << join(layout, " ");
  }
}

TEST_F(Fp8Test, AResumedRunGoesOnBitForBitAndFromOtherPrecisions) {
  EXPECT_EQ(loss_over(kGrouped + kFp8, {{}, {}, {}, {}}), loss_over(kGrouped + kFp8, {{}}));
  EXPECT_NEAR(loss_over(kGrouped, {kFp8, kBf16, kFp8, {}}), loss_over(kGrouped, {{}}), 1e-2);
}

TEST_F(Fp8Test, RefusesWhatIsNotBuilt) {
  EXPECT_ERROR(config_of(kFp8 + Settings{"run.device=cuda"}), Config,
               "precision.compute = fp8 with run.device = cuda");
  EXPECT_ERROR(config_of(kFp8 + Settings{"precision.grads=fp16"}), Config, "must be fp32 or bf16");
  EXPECT_ERROR(config_of(kFp8 + Settings{"precision.fp8_recipe=block"}), Config, "use tensor");
  EXPECT_ERROR(config_of(kFp8 + Settings{"precision.fp8_recipe=delayed"}), Config, "use tensor");
  EXPECT_ERROR(
      config_of(kFp8 + Settings{"model.family=mixtral", "model.experts=4", "model.expert_ffn=16"}),
      Config, "precision.compute = fp8 with a model.family with experts");
}

}  // namespace
}  // namespace sextant

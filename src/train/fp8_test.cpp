// Training in fp8: memory, equal bits where bf16 has them, scales that ranks agree on, resuming.
#include <algorithm>

#include "support/fp8_runs.h"
#include "train/phantom.h"

namespace sextant {
namespace {

class SlowFp8Test : public Fp8Test {};

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

TEST_F(SlowFp8Test, PipelinesAndZeroHaveTheLossesOfTheirPlainForm) {
  for (const Settings& recipe : kRecipes) expect_losses_of_plain_form(recipe);
}

TEST_F(SlowFp8Test, RecomputationReplaysScalesToTheBit) {
  for (const Settings& recipe : kRecipes) expect_replayed_scales(recipe);
}

TEST_F(SlowFp8Test, LossesOfLayoutsAreNearThoseOfOneRankAndOfFp32) {
  const Outcome floats = train(kNormed);
  for (const Settings& recipe : kRecipes) {
    const Outcome one = train(kNormed + recipe);
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(one.losses[i], floats.losses[i], 1e-2);
      EXPECT_NE(one.losses[i], floats.losses[i]);
    }
    for (const Settings& layout :
         {shared_by(2), shared_by(2) + kWhole, shared_by(2) + Settings{"parallel.tp_overlap=true"},
          context(2, "ring")}) {
      const Outcome other = train(kNormed + recipe + layout);
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(other.losses[i], one.losses[i], 2e-3) << join(recipe + layout, " ");
    }
  }
}

// Widths and tokens beyond one block, none a multiple of 128, in parts that cut blocks.
TEST_F(SlowFp8Test, BlocksBeginAtEachShard) {
  const Settings wide = kGrouped + Settings{"model.hidden=160", "model.ffn=272", "model.seq=144",
                                            "model.layers=1", "batch.accumulation=1"};
  const Outcome floats = train(wide, 2), one = train(wide + kBlock, 2);
  EXPECT_NE(one.losses, floats.losses);
  for (const Settings& layout :
       {Settings{}, shared_by(2), shared_by(2) + kWhole,
        shared_by(2) + Settings{"parallel.tp_overlap=true"}, context(2, "allgather")}) {
    const Outcome other = train(wide + kBlock + layout, 2);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(other.losses[i], one.losses[i], 4e-3) << join(layout, " ");
  }
  const Settings two = {"parallel.tp=2", "parallel.dp=2", "batch.micro=1"};
  const Settings zero = {"parallel.tp=2", "parallel.shard=2", "parallel.zero=3", "batch.micro=1"};
  EXPECT_EQ(train(wide + kBlock + two, 2).losses, train(wide + kBlock + zero, 2).losses);
}

// Ranks agree on a scale for each product with the recipe of current scaling, once a step with
// delayed scaling, never with blocks.
TEST_F(Fp8Test, RanksAgreeOnScalesAsOftenAsTheRecipeNeeds) {
  const auto reductions = [&](const Settings& recipe) {
    int64_t count = 0;
    on_ranks(config_of(kGrouped + recipe + context(2, "allgather")),
             [&](Trainer& trainer, const MemoryEstimate&) {
               trainer.train_step();
               trainer.train_step();
               if (trainer.mesh().world().rank() == 0)
                 count = trainer.mesh().world().ledger().traffic.of(Operation::AllReduce).calls;
             });
    return count;
  };
  const int64_t bf16 = reductions(kBf16), micros = 2, blocks = 2, layers = 4, products = 2;
  EXPECT_EQ(reductions(kBlock), bf16);
  EXPECT_EQ(reductions(kDelayed), bf16 + 1);
  EXPECT_EQ(reductions(kFp8), bf16 + micros * blocks * layers * products);
}

// Each micro-batch quantises its own operands; weights are quantised with the first.
TEST_F(Fp8Test, WeightsAreQuantisedOnceAStep) {
  const int64_t weights = 2 * 4;  // blocks, linear layers
  for (const Settings& recipe : kRecipes)
    for (const Settings& layout : {Settings{}, Settings{"memory.recompute=full"},
                                   Settings{"parallel.shard=2", "parallel.zero=1"}}) {
      const auto quantised = [&](int micros) {
        const Config config =
            config_of(kGrouped + recipe + layout + Settings{concat("batch.accumulation=", micros)});
        const Preflight flight = preflight(config, 0);
        const StepTraces traces = trace_steps(config, flight, 0, flight.plans[0]);
        return std::count_if(
            traces.trace.ops.begin() + static_cast<int64_t>(traces.second),
            traces.trace.ops.begin() + static_cast<int64_t>(traces.end),
            [](const TraceOp& op) { return std::string_view(op.name).starts_with("quantize"); });
      };
      const int64_t one = quantised(1), two = quantised(2), three = quantised(3);
      EXPECT_EQ(three - two, two - one) << join(recipe + layout, " ");
      EXPECT_EQ(2 * one - two, weights) << join(recipe + layout, " ");
      EXPECT_GT(two - one, 2 * weights) << join(recipe + layout, " ");
    }
}

// By hand from the recipe: a step is scaled by the largest values of the steps before.
TEST_F(Fp8Test, DelayedScalesComeFromTheStepsBefore) {
  const auto histories = [&](const Settings& more) {
    std::vector<std::vector<float>> after;
    on_ranks(config_of(kGpt + kDelayed + more), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 4; ++step) {
        trainer.train_step();
        if (trainer.mesh().world().rank() != 0) continue;
        std::vector<float>& all = after.emplace_back();
        for (const NamedTensor& layer : trainer.params().delayed().state()) {
          std::vector<float> values(static_cast<size_t>(layer.tensor.elements()));
          copy_to_host<float>(trainer.stream(), values, layer.tensor);
          all.insert(all.end(), values.begin(), values.end());
        }
      }
    });
    return after;
  };
  const auto one = histories({});
  ASSERT_EQ(one[0].size(), 2U * 4 * 3 * (1 + 3));  // blocks, layers, operands
  for (size_t row = 0; row < one[0].size(); row += 4)
    for (size_t step = 0; step < 4; ++step) {
      const std::vector<float>& now = one[step];
      EXPECT_GT(now[row + 1], 0);
      for (size_t back = 1; back < 3; ++back)
        EXPECT_EQ(now[row + 1 + back], step < back ? 0 : one[step - back][row + 1]);
      EXPECT_EQ(now[row], std::max({now[row + 1], now[row + 2], now[row + 3]}));
    }
  // Doubled with a margin of 1; the first step has the scales of its own values in both.
  const auto margin = histories({"precision.fp8_margin=1"});
  for (size_t row = 0; row < one[0].size(); row += 4) EXPECT_EQ(margin[0][row], 2 * one[0][row]);
  // Other ranks have other micro-batches.
  EXPECT_EQ(histories({"parallel.dp=2", "batch.accumulation=1"})[0], one[0]);
}

TEST_F(SlowFp8Test, VerifyHoldsForEachRecipeInEachKindOfLayout) {
  const Settings pipelined = {"model.layers=4", "batch.accumulation=4", "parallel.pp=2"};
  for (const Settings& recipe : {kDelayed, kBlock})
    for (const Settings& layout :
         {shared_by(2), shared_by(2) + kWhole, shared_by(4) + Settings{"parallel.tp_overlap=true"},
          context(2, "ring"), pipelined + Settings{"parallel.schedule=1f1b"},
          pipelined + Settings{"parallel.schedule=zb-h1"},
          pipelined + Settings{"parallel.schedule=dualpipe"}, Settings{"parallel.dp=2"},
          Settings{"parallel.shard=2", "parallel.zero=1"},
          Settings{"parallel.shard=2", "parallel.zero=3", "parallel.tp=2"}}) {
      const VerifyReport report = verify(kGrouped + recipe + layout);
      EXPECT_NE(report.verdict, Verdict::Bug) << join(recipe + layout, " ") << "\n"
                                              << join(report.problems, "\n");
    }
}

TEST_F(SlowFp8Test, VerifyFindsWrongScales) {
  const Settings wide = kGrouped + Settings{"model.hidden=64"};
  const Settings zero3 = {"parallel.shard=2", "parallel.zero=3"};
  for (const Settings& recipe : kRecipes)
    for (const Settings& layout : {shared_by(2), zero3})
      EXPECT_EQ(verify(wide + recipe + layout + Settings{"fault.inject=wrong_scale"}).verdict,
                Verdict::Bug)
          << join(recipe + layout, " ");
  for (const Settings& layout : {shared_by(2), Settings{"parallel.dp=2"}}) {
    const VerifyReport report =
        verify(wide + kDelayed + layout + Settings{"fault.inject=local_amax:rank=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug) << join(layout, " ");
  }
  EXPECT_ERROR(verify(wide + kBlock + shared_by(2) + Settings{"fault.inject=local_amax"}), Config,
               "needs precision.fp8_recipe delayed");
}

TEST_F(SlowFp8Test, AResumedRunGoesOnBitForBitAndFromOtherPrecisions) {
  for (const Settings& recipe : kRecipes)
    EXPECT_EQ(loss_over(kGrouped + recipe, {{}, {}, {}, {}}), loss_over(kGrouped + recipe, {{}}))
        << join(recipe, " ");
  // Histories go over into other layouts.
  const Settings pairs =
      kGrouped + kDelayed + Settings{"model.layers=4", "batch.accumulation=4", "model.tied=false"};
  EXPECT_EQ(loss_over(pairs, {{}, {"parallel.pp=2"}}), loss_over(pairs, {{}}));
  EXPECT_EQ(loss_over(pairs, {{"parallel.pp=2", "parallel.schedule=zb-v"}, {}}),
            loss_over(pairs, {{}}));
  EXPECT_NEAR(loss_over(kGrouped, {kBlock, kDelayed, kBf16, kDelayed}), loss_over(kGrouped, {{}}),
              1e-2);
  EXPECT_NEAR(loss_over(kGrouped, {kFp8, kBf16, kFp8, {}}), loss_over(kGrouped, {{}}), 1e-2);
}

TEST_F(Fp8Test, RefusesWhatIsNotBuilt) {
  EXPECT_ERROR(config_of(kFp8 + Settings{"precision.grads=fp16"}), Config, "must be fp32 or bf16");
}

}  // namespace
}  // namespace sextant

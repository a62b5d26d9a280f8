// Training in bf16: bytes and traffic of each recipe, equal bits where fp32 has them, resuming.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>

#include "support/layouts.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

const Settings k18Bytes = {"precision.compute=bf16"};
const Settings k16Bytes = k18Bytes + Settings{"precision.grads=bf16"};
const Settings k12Bytes = k16Bytes + Settings{"precision.moments=bf16"};
const Settings k8Bytes = k12Bytes + Settings{"precision.master=none"};

class PrecisionTest : public LayoutTest {
 protected:
  PrecisionTest() : LayoutTest({"run.threads=1", "train.steps=6"}) {}

  // Losses and norms of the steps, and the bits of all updated weights, masters and moments.
  struct Outcome {
    std::vector<double> losses, norms;
    std::vector<double> state;
    int64_t sent = 0;  // bytes of rank 0 in the last step
  };
  Outcome train(const Settings& settings, int steps = 3) {
    const Config config = config_of(settings);
    std::vector<Outcome> of(static_cast<size_t>(world_size(config.parallel)));
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      Outcome& own = of[static_cast<size_t>(trainer.mesh().world().rank())];
      for (int step = 0; step < steps; ++step) {
        const StepRecord record = trainer.train_step();
        own.losses.push_back(record.loss);
        own.norms.push_back(record.grad_norm);
        own.sent = record.sent.total().bytes;
      }
    });
    return of[0];
  }
};

// The bytes of weights, gradients and optimizer state for each parameter, measured.
TEST_F(PrecisionTest, EachRecipeHasItsBytesPerParameter) {
  struct Recipe {
    Settings settings;
    int64_t weights, gradients, optimizer;
  };
  for (const Recipe& recipe :
       {Recipe{{}, 4, 4, 8}, Recipe{k18Bytes, 2, 4, 12}, Recipe{k16Bytes, 2, 2, 12},
        Recipe{k12Bytes, 2, 2, 8}, Recipe{k8Bytes, 2, 2, 4}}) {
    const Config config = config_of(kGrouped + recipe.settings +
                                    Settings{"batch.accumulation=1", "model.tied=false"});
    const int64_t params = make_blueprint(config.model).stored_parameters();
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      trainer.train_step();
      EXPECT_EQ(predicted.weights, recipe.weights * params) << join(recipe.settings, " ");
      EXPECT_EQ(predicted.gradients, recipe.gradients * params) << join(recipe.settings, " ");
      EXPECT_EQ(predicted.optimizer, recipe.optimizer * params) << join(recipe.settings, " ");
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(recipe.settings, " ");
    });
  }
}

// The published 5, 3.25 and 1.5 bytes of the 12-byte recipe: what 8 ranks hold between steps.
TEST_F(PrecisionTest, EightRanksHoldThePublishedBytesPerParameter) {
  for (const auto& [stage, bytes] : {std::pair{1, 5.0}, {2, 3.25}, {3, 1.5}}) {
    const Config config =
        config_of(kGrouped + k12Bytes +
                  Settings{"parallel.shard=8", concat("parallel.zero=", stage), "model.tied=false",
                           "batch.accumulation=1", "batch.micro=1"});
    const auto params = static_cast<double>(make_blueprint(config.model).stored_parameters());
    std::atomic<int64_t> held{0};
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      for (const Category category : {Category::Weights, Category::Gradients, Category::Optimizer})
        held += trainer.arena().current(category);
    });
    EXPECT_DOUBLE_EQ(static_cast<double>(held), 8 * bytes * params) << stage;
  }
}

TEST_F(PrecisionTest, ActivationsAreHalfOfThoseInFp32ButForStatistics) {
  const auto activations = [&](const Settings& settings) {
    return preflight(config_of(kGrouped + settings), 0).memory[0].activations;
  };
  EXPECT_LT(activations(k18Bytes), 0.62 * static_cast<double>(activations({})));
  EXPECT_GT(activations(k18Bytes), 0.50 * static_cast<double>(activations({})));
}

// Gradients of 2 bytes halve what ranks send; so do gathered weights.
TEST_F(PrecisionTest, TrafficIsHalved) {
  const auto sent = [&](const Settings& layout, const Settings& precision) {
    return train(kGrouped + layout + precision, 1).sent;
  };
  const Settings ddp = {"parallel.dp=2"}, zero3 = {"parallel.shard=2", "parallel.zero=3"};
  EXPECT_EQ(2 * sent(ddp, k16Bytes), sent(ddp, {}));
  EXPECT_EQ(sent(ddp, k18Bytes), sent(ddp, {}));  // fp32 gradients
  EXPECT_EQ(2 * sent(zero3, k16Bytes), sent(zero3, {}));
  // The head's statistics stay fp32: three numbers of 32 tokens, for two micro-batches.
  EXPECT_EQ(2 * sent(shared_by(2), k16Bytes), sent(shared_by(2), {}) + 2 * 32 * 3 * 4);
  EXPECT_EQ(2 * sent(context(2, "ring"), k16Bytes), sent(context(2, "ring"), {}));
}

// What a step of ZeRO-1 and 2 sends over all ranks of the axis: each shard of the weights to the
// other ranks in the compute type, which with fp8 is bf16, not in that of the masters; each shard
// of the gradients from them in the type of gradients.
TEST_F(PrecisionTest, ZeroGathersWeightsInTheComputeType) {
  struct Recipe {
    Settings settings;
    int64_t weight, gradient;  // bytes
  };
  for (const Recipe& recipe :
       {Recipe{{}, 4, 4}, Recipe{k18Bytes, 2, 4}, Recipe{k16Bytes, 2, 2}, Recipe{k8Bytes, 2, 2},
        Recipe{{"precision.compute=fp16"}, 2, 4}, Recipe{{"precision.compute=fp8"}, 2, 4}})
    for (const char* stage : {"1", "2"}) {
      const Config config =
          config_of(kGrouped + recipe.settings +
                    Settings{"parallel.shard=4", concat("parallel.zero=", stage), "batch.micro=1",
                             "batch.accumulation=1", "model.tied=false"});
      const int64_t elements = 3 * make_blueprint(config.model).stored_parameters();
      std::mutex mutex;
      TrafficTable sent;
      on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
        trainer.train_step();
        const StepRecord record = trainer.train_step();
        const std::lock_guard lock(mutex);
        sent.add(record.sent, 1);
      });
      const Traffic gathered = sent.of("shard", Operation::AllGather);
      const Traffic reduced = sent.of("shard", Operation::ReduceScatter);
      EXPECT_EQ(gathered.elements, elements) << join(recipe.settings, " ") << " " << stage;
      EXPECT_EQ(gathered.bytes, recipe.weight * elements) << join(recipe.settings, " ");
      EXPECT_EQ(reduced.elements, elements) << join(recipe.settings, " ") << " " << stage;
      EXPECT_EQ(reduced.bytes, recipe.gradient * elements) << join(recipe.settings, " ");
    }
}

TEST_F(PrecisionTest, EveryStageOfZeroHasTheLossesOfDdp) {
  for (const Settings& recipe : {k18Bytes, k16Bytes, k12Bytes, k8Bytes}) {
    const Outcome ddp = train(kGrouped + recipe + Settings{"parallel.dp=2"});
    for (const char* stage : {"1", "2", "3"}) {
      // One micro-batch: ZeRO-2 and 3 sum over ranks first, then over micro-batches.
      const Settings one = {"batch.accumulation=1", "batch.micro=4"};
      const Outcome whole = train(kGrouped + recipe + one + Settings{"parallel.dp=2"});
      const Outcome sharded = train(kGrouped + recipe + one +
                                    Settings{"parallel.shard=2", concat("parallel.zero=", stage)});
      EXPECT_EQ(sharded.losses, whole.losses) << stage << " " << join(recipe, " ");
    }
    EXPECT_TRUE(std::ranges::all_of(ddp.losses, [](double loss) { return loss < 7; }));
  }
}

// A pipeline computes the same sums: equal bits, in every recipe and schedule with one gradient
// buffer.
TEST_F(PrecisionTest, APipelineHasTheLossesOfOneRank) {
  for (const Settings& recipe : {k18Bytes, k16Bytes, k8Bytes}) {
    const Outcome one = train(
        kGpt + recipe + Settings{"batch.accumulation=4", "model.tied=false", "model.layers=4"});
    for (const char* schedule : {"1f1b", "zb-h1", "zb-v"})
      EXPECT_EQ(train(kGpt + recipe +
                      Settings{"batch.accumulation=4", "parallel.pp=2", "model.tied=false",
                               "model.layers=4", concat("parallel.schedule=", schedule)})
                    .losses,
                one.losses)
          << schedule << " " << join(recipe, " ");
  }
}

// All axes train: their losses stay near those of one rank.
TEST_F(PrecisionTest, EveryAxisTrains) {
  for (const Settings& recipe : {k18Bytes, k12Bytes, k8Bytes}) {
    const Outcome one = train(kNormed + recipe);
    for (const Settings& layout :
         {shared_by(2), shared_by(2) + kWhole, shared_by(2) + Settings{"parallel.tp_overlap=true"},
          context(2, "ring"), context(2, "ulysses"), context(2, "allgather"),
          context(4, "ring+ulysses"), Settings{"parallel.pp=2", "optim.post_validation=true"},
          Settings{"memory.logits=chunked"}, Settings{"memory.recompute=full"}}) {
      const Outcome other = train(kNormed + recipe + layout);
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(other.losses[i], one.losses[i], 2e-3) << join(layout + recipe, " ");
    }
  }
}

// A resumed run has the bits of one that was never interrupted: masters and narrow moments are in
// the checkpoint.
TEST_F(PrecisionTest, ResumesWithTheSameBits) {
  for (const Settings& recipe : {k18Bytes, k12Bytes, k8Bytes})
    for (const Settings& layout :
         {Settings{}, Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2)}) {
      const Settings all = kGrouped + recipe + layout;
      EXPECT_EQ(loss_over(all, {{}, {}, {}, {}}), loss_over(all, {{}})) << join(all, " ");
    }
}

// A checkpoint holds the masters, so a run may go on in another precision.
TEST_F(PrecisionTest, AnotherPrecisionGoesOnFromACheckpoint) {
  const double narrow = loss_over(kGrouped, {k18Bytes, {}, k8Bytes, k12Bytes});
  EXPECT_NEAR(narrow, loss_over(kGrouped, {{}}), 2e-3);
}

const Settings kFp16 = {"precision.compute=fp16"};

TEST_F(PrecisionTest, Fp16TrainsOverEveryAxis) {
  const Outcome floats = train(kNormed), one = train(kNormed + kFp16);
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], floats.losses[i], 1e-3);
    EXPECT_NEAR(one.norms[i], floats.norms[i], 2e-2 * floats.norms[i]);  // unscaled
  }
  for (const Settings& layout : {shared_by(2), context(2, "ring"), Settings{"parallel.pp=2"},
                                 Settings{"parallel.dp=2", "batch.accumulation=1"},
                                 Settings{"parallel.shard=2", "parallel.zero=3",
                                          "batch.accumulation=1", "precision.grads=fp16"}}) {
    const Outcome other = train(kNormed + kFp16 + layout);
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(other.losses[i], one.losses[i], 1e-3) << join(layout, " ");
  }
}

// An overflow on one rank: all ranks skip the step, no weight or moment changes by it, the scale
// halves, training goes on.
TEST_F(PrecisionTest, AnOverflowIsSkippedByAllRanks) {
  const auto overflow = [](int rank) {
    return Settings{concat("fault.inject=overflow:step=2,rank=", rank)};
  };
  for (const Settings& layout :
       {overflow(0), Settings{"parallel.dp=2"} + overflow(1),
        Settings{"parallel.shard=2", "parallel.zero=2"} + overflow(0),
        Settings{"parallel.pp=2"} + overflow(1), shared_by(2) + overflow(1)}) {
    const Config config =
        config_of(kNormed + kFp16 + layout +
                  Settings{"precision.loss_scale_hysteresis=1", "optim.schedule=constant"});
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      const auto state = [&] {
        trainer.params().await_weights();
        std::vector<float> all;
        const auto take = [&](const Tensor& tensor) {
          std::vector<float> values(static_cast<size_t>(tensor.elements()));
          copy_floats_to_host(trainer.stream(), values, tensor);
          all.insert(all.end(), values.begin(), values.end());
        };
        for (const OwnedSlice& slice : trainer.params().owned())
          take(slice.value), take(slice.master);
        for (const NamedTensor& moment : trainer.optimizer().state()) take(moment.tensor);
        return all;
      };
      const StepRecord first = trainer.train_step();
      const std::vector<float> before = state();
      const StepRecord second = trainer.train_step();
      EXPECT_TRUE(state() == before);
      const StepRecord third = trainer.train_step();
      EXPECT_FALSE(state() == before);
      EXPECT_FALSE(first.is_skipped);
      EXPECT_TRUE(second.is_skipped);
      EXPECT_FALSE(third.is_skipped);
      EXPECT_EQ(second.loss_scale, first.loss_scale);
      EXPECT_EQ(*third.loss_scale, *first.loss_scale / 2);
    });
  }
}

TEST_F(PrecisionTest, AResumedRunKeepsItsLossScale) {
  const Settings overflow = {"fault.inject=overflow:rank=0,step=1",
                             "precision.loss_scale_hysteresis=1"};
  const Settings all = kGrouped + kFp16 + overflow;
  EXPECT_EQ(loss_over(all, {{}, {}, {}, {}}), loss_over(all, {{}}));
  // And goes on from bf16, which has none, and back.
  EXPECT_NEAR(loss_over(kGrouped, {kFp16, k18Bytes, kFp16, {}}), loss_over(kGrouped, {{}}), 2e-3);
}

TEST_F(PrecisionTest, RefusesMixturesThatAreNotBuilt) {
  EXPECT_ERROR(config_of({"precision.grads=bf16"}), Config,
               "precision.grads = bf16 with precision.compute = fp32, must be fp32");
  EXPECT_ERROR(config_of({"precision.master=none"}), Config,
               "precision.master = none with precision.compute = fp32");
  EXPECT_ERROR(config_of(k8Bytes + Settings{"optim.name=sgd"}), Config, "optim.name = sgd");
  EXPECT_ERROR(config_of(k12Bytes + Settings{"optim.name=sgd"}), Config, "optim.name = sgd");
  EXPECT_ERROR(config_of(kFp16 + Settings{"precision.grads=bf16"}), Config, "must be fp32 or fp16");
  EXPECT_ERROR(config_of(kFp16 + Settings{"parallel.pp=2", "optim.post_validation=true"}), Config,
               "optim.post_validation = true with precision.compute = fp16");
}

}  // namespace
}  // namespace sextant

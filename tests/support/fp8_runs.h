#pragma once
// Training in fp8 for tests: recipes, and what ranks compute, send and hold.
#include <vector>

#include "support/layouts.h"
#include "tensor/copy.h"

namespace sextant {

inline const Settings kFp8 = {"precision.compute=fp8"}, kBf16 = {"precision.compute=bf16"};
inline const Settings kBlock = kFp8 + Settings{"precision.fp8_recipe=block"};
inline const Settings kDelayed =
    kFp8 + Settings{"precision.fp8_recipe=delayed", "precision.fp8_amax_history_len=3"};
inline const std::vector<Settings> kRecipes = {kFp8, kDelayed, kBlock};

class Fp8Test : public LayoutTest {
 protected:
  Fp8Test() : LayoutTest({"run.threads=1", "train.steps=6"}) {}

  struct Outcome {
    std::vector<double> losses;
    int64_t sent = 0;           // bytes of rank 0 in the last step
    std::vector<float> values;  // gradients of every step, then weights, of rank 0
  };
  void expect_losses_of_plain_form(const Settings& recipe);
  void expect_replayed_scales(const Settings& recipe);
  Outcome train(const Settings& settings, int steps = 3) {
    const Config config = config_of(settings);
    std::vector<Outcome> of(static_cast<size_t>(world_size(config.parallel)));
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      Outcome& own = of[static_cast<size_t>(trainer.mesh().world().rank())];
      const auto add = [&](const Tensor& tensor) {
        std::vector<float> host(static_cast<size_t>(tensor.elements()));
        copy_floats_to_host(trainer.stream(), host, tensor);
        own.values.insert(own.values.end(), host.begin(), host.end());
      };
      trainer.on_gradients = [&](int64_t) {
        for (const OwnedSlice& slice : trainer.params().owned()) add(slice.grad);
      };
      for (int step = 0; step < steps; ++step) {
        const StepRecord record = trainer.train_step();
        own.losses.push_back(record.loss);
        own.sent = record.sent.total().bytes;
      }
      trainer.finish_update();
      for (const OwnedSlice& slice : trainer.params().owned()) add(slice.value);
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(settings, " ");
    });
    return of[0];
  }
};

inline void Fp8Test::expect_losses_of_plain_form(const Settings& recipe) {
  const Settings base = kGpt + recipe + Settings{"model.tied=false", "model.layers=4"};
  const Settings four = base + Settings{"batch.accumulation=4"};
  const Outcome one = train(four);
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v"})
    EXPECT_EQ(
        train(four + Settings{"parallel.pp=2", concat("parallel.schedule=", schedule)}).losses,
        one.losses)
        << schedule << " " << join(recipe, " ");
  const Settings two = base + Settings{"batch.accumulation=1", "batch.micro=4"};
  const Outcome ddp = train(two + Settings{"parallel.dp=2"});
  for (const char* stage : {"1", "2", "3"})
    EXPECT_EQ(train(two + Settings{"parallel.shard=2", concat("parallel.zero=", stage)}).losses,
              ddp.losses)
        << stage << " " << join(recipe, " ");
}

inline void Fp8Test::expect_replayed_scales(const Settings& recipe) {
  for (const Settings& family : {kGpt, kNormed})
    for (const Settings& layout :
         {Settings{}, shared_by(2), context(2, "ring"), context(2, "ulysses")}) {
      const Settings settings = family + recipe + layout;
      const Outcome kept = train(settings);
      EXPECT_GT(kept.values.size(), 1000u);
      for (const char* recompute : {"cheap", "selective", "full"}) {
        const Outcome again = train(settings + Settings{concat("memory.recompute=", recompute)});
        EXPECT_EQ(again.losses, kept.losses) << recompute << " " << join(settings, " ");
        EXPECT_TRUE(again.values == kept.values) << recompute << " " << join(settings, " ");
      }
    }
}

}  // namespace sextant

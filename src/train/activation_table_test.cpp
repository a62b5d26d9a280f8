// The table's bytes per layer and micro-batch equal the arena's growth for one more layer.
#include "support/counts.h"
#include "support/layouts.h"
#include "train/activations.h"

namespace sextant {
namespace {

class ActivationTableTest : public LayoutTest {
 protected:
  ActivationTableTest() : LayoutTest({"batch.accumulation=1", "run.threads=1"}) {}

  Config with_layers(const Settings& settings, int layers) {
    return config_of(settings + Settings{"model.layers=" + std::to_string(layers)});
  }
  // Peak activation bytes of each rank.
  std::vector<int64_t> measured(const Config& config) {
    std::vector<int64_t> bytes(static_cast<size_t>(world_size(config.parallel)));
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      bytes[static_cast<size_t>(trainer.mesh().world().rank())] =
          trainer.arena().peaks()[static_cast<size_t>(Category::Activations)];
    });
    return bytes;
  }
};

TEST_F(ActivationTableTest, IsWhatOneLayerMoreHoldsMoreOnEveryRank) {
  GridSample sample(3);
  for (const Settings& model :
       {Settings{"model.family=gpt2"}, Settings{"model.family=gpt2", "model.dropout=0.1"},
        Settings{"model.family=llama", "model.kv_heads=2"},
        Settings{"model.family=qwen3", "model.kv_heads=4", "model.head_dim=6"}})
    for (const Settings& layout : {Settings{}, Settings{"parallel.tp=2", "parallel.sequence=false"},
                                   Settings{"parallel.tp=2", "parallel.sequence=true"},
                                   Settings{"parallel.tp=4", "parallel.sequence=false"},
                                   Settings{"parallel.tp=4", "parallel.sequence=true"}})
      for (const char* recompute : {"none", "cheap", "selective", "full"}) {
        if (!sample.takes()) continue;
        const Settings all = model + layout + Settings{concat("memory.recompute=", recompute)};
        const std::vector<int64_t> two = measured(with_layers(all, 2)),
                                   three = measured(with_layers(all, 3));
        const int64_t kept = activation_table(with_layers(all, 2)).kept;
        for (size_t rank = 0; rank < two.size(); ++rank)
          EXPECT_EQ(three[rank] - two[rank], kept) << join(all, " ") << ", rank " << rank;
      }
}

}  // namespace
}  // namespace sextant

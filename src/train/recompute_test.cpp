// Activation recomputation: the same bits over every axis, with less memory.
#include <algorithm>

#include "support/layouts.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

struct Outcome {
  std::vector<double> values;  // losses, norms and a sum over the weights, by rank
  int64_t activations = 0;     // of the rank with the largest peak
};

class RecomputeTest : public LayoutTest {
 protected:
  RecomputeTest() : LayoutTest({"model.layers=4", "batch.accumulation=4", "run.threads=1"}) {}

  Outcome train(const Settings& settings) {
    const Config config = config_of(settings);
    const auto ranks = static_cast<size_t>(world_size(config.parallel));
    std::vector<std::vector<double>> of(ranks);
    std::vector<int64_t> bytes(ranks);
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      const auto rank = static_cast<size_t>(trainer.mesh().world().rank());
      for (int step = 0; step < 2; ++step) {
        const StepRecord record = trainer.train_step();
        of[rank].push_back(record.loss);
        of[rank].push_back(record.grad_norm);
      }
      trainer.finish_update();
      trainer.params().await_weights();
      trainer.params().for_each_kept([&](const Param&, const Range&, const Tensor& values) {
        std::vector<float> host(static_cast<size_t>(values.elements()));
        copy_floats_to_host(trainer.stream(), host, values);
        for (const float value : host) of[rank].push_back(value);
      });
      bytes[rank] = trainer.arena().peaks()[static_cast<size_t>(Category::Activations)];
      EXPECT_EQ(bytes[rank], predicted.activations);
    });
    Outcome out;
    for (const std::vector<double>& values : of)
      out.values.insert(out.values.end(), values.begin(), values.end());
    out.activations = *std::ranges::max_element(bytes);
    return out;
  }

  enum class Saves { Memory, Nothing };
  void expect_same_bits(const Settings& settings, Saves saves = Saves::Memory) {
    const Outcome none = train(settings);
    const Outcome cheap = train(settings + Settings{"memory.recompute=cheap"});
    const Outcome selective = train(settings + Settings{"memory.recompute=selective"});
    const Outcome full = train(settings + Settings{"memory.recompute=full"});
    const Outcome some =
        train(settings + Settings{"memory.recompute=full", "memory.recompute_layers=1"});
    EXPECT_TRUE(cheap.values == none.values) << join(settings, " ");
    EXPECT_TRUE(selective.values == none.values) << join(settings, " ");
    EXPECT_TRUE(full.values == none.values) << join(settings, " ");
    EXPECT_TRUE(some.values == none.values) << join(settings, " ");
    if (saves == Saves::Nothing) return;
    EXPECT_LT(cheap.activations, none.activations) << join(settings, " ");
    EXPECT_LT(some.activations, none.activations) << join(settings, " ");
    EXPECT_LE(full.activations, some.activations) << join(settings, " ");
    EXPECT_LT(selective.activations, none.activations) << join(settings, " ");
    EXPECT_LT(full.activations, selective.activations) << join(settings, " ");
  }
};

TEST_F(RecomputeTest, ChangesNoBitOnOneRank) {
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    expect_same_bits(family + Settings{"model.dropout=0.1"});
}

// In narrow types what is recomputed is rounded where it was rounded before.
TEST_F(RecomputeTest, ChangesNoBitInNarrowTypes) {
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    for (const char* type : {"bf16", "fp16"})
      expect_same_bits(family + Settings{concat("precision.compute=", type)});
}

TEST_F(RecomputeTest, ChangesNoBitOverAnyAxis) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=1"},
        Settings{"parallel.shard=2", "parallel.zero=2"},
        Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2) + kOwn, shared_by(2) + kWhole,
        shared_by(2) + Settings{"parallel.tp_overlap=true"}, context(2, "ring"),
        context(2, "ulysses"), context(2, "allgather"), context(4, "ring+ulysses")})
    expect_same_bits(kGrouped + layout + Settings{"model.dropout=0.1"});
}

TEST_F(RecomputeTest, ChangesNoBitUnderAnySchedule) {
  const auto with = [](const char* schedule) {
    return kGpt + Settings{"parallel.pp=2", concat("parallel.schedule=", schedule)};
  };
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "looped-bfs"})
    expect_same_bits(with(schedule));
  // Activations for weight gradients are recomputed with the input gradients, and kept from there.
  for (const char* schedule : {"zb-h1", "zb-h2", "interleaved-zb", "zb-auto", "zb-v", "v-half",
                               "v-min", "dualpipe", "dualpipe-v"})
    expect_same_bits(with(schedule), Saves::Nothing);
}

TEST_F(RecomputeTest, ChangesNoBitInProductsOfAxes) {
  for (const Settings& layout :
       {Settings{"parallel.pp=2", "parallel.tp=2", "parallel.shard=2", "parallel.zero=3"},
        Settings{"parallel.pp=2", "parallel.schedule=zb-v", "parallel.cp=2", "parallel.shard=2",
                 "parallel.zero=2"},
        Settings{"parallel.tp=2", "parallel.cp=2", "parallel.dp=2"},
        Settings{"parallel.pp=2", "parallel.schedule=dualpipe", "parallel.dp=2",
                 "optim.post_validation=true"}})
    expect_same_bits(kNormed + layout, Saves::Nothing);
}

// What is routed again has the same experts; exchanges and drops are the same.
TEST_F(RecomputeTest, ChangesNoBitOfExperts) {
  const Settings mixtral = {"model.family=mixtral",   "model.kv_heads=4",
                            "model.experts=8",        "model.experts_per_token=2",
                            "model.expert_ffn=12",    "batch.accumulation=2",
                            "train.balance_loss=0.1", "train.router_z_loss=0.01"};
  const Settings sigmoid = {"model.dense_layers=1",   "model.ffn=24",
                            "model.shared_experts=2", "model.router=sigmoid",
                            "model.router_groups=4",  "model.groups_per_token=2"};
  const Settings latent = {"model.family=deepseek-moe", "model.kv_heads=8",
                           "model.head_dim=6",          "model.v_head_dim=4",
                           "model.qk_rope_head_dim=2",  "model.q_lora_rank=12",
                           "model.kv_lora_rank=10"};
  for (const Settings& layout :
       {Settings{}, Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4", "parallel.ep_node=2"},
        Settings{"parallel.dp=4", "parallel.ep=4", "train.capacity_factor=1"},
        Settings{"parallel.dp=4", "parallel.ep=2", "parallel.etp=2"},
        sigmoid + Settings{"parallel.dp=2", "parallel.ep=2", "train.capacity_factor=1.25"},
        sigmoid + latent + Settings{"parallel.dp=2", "parallel.ep=2"},
        sigmoid + latent + Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.dp=2", "parallel.ep=2", "parallel.pp=2", "parallel.schedule=dualpipe",
                 "batch.accumulation=4"}})
    expect_same_bits(mixtral + layout + Settings{"model.dropout=0.1"}, Saves::Nothing);
}

}  // namespace
}  // namespace sextant

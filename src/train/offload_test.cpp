// Optimizer state and activations in host memory: the same bits over every axis, with less memory
// on the device.
#include <cstring>

#include "support/expect_error.h"
#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "tensor/copy.h"
#include "trace/race.h"
#include "train/phantom.h"

namespace sextant {
namespace {

class OffloadTest : public LayoutTest {
 protected:
  OffloadTest() : LayoutTest({"model.layers=4", "batch.accumulation=4", "run.threads=1"}) {}

  // Losses, norms, weights, masters and moments of three steps, by rank.
  std::vector<std::vector<float>> train(const Settings& settings) {
    const Config config = config_of(settings);
    std::vector<std::vector<float>> of(static_cast<size_t>(world_size(config.parallel)));
    on_ranks(config, [&](Trainer& trainer, const MemoryEstimate& predicted) {
      std::vector<float>& values = of[static_cast<size_t>(trainer.mesh().world().rank())];
      const auto add = [&](const Tensor& tensor) {
        std::vector<float> host(static_cast<size_t>(tensor.elements()));
        copy_floats_to_host(trainer.stream(), host, tensor);
        values.insert(values.end(), host.begin(), host.end());
      };
      for (int step = 0; step < 3; ++step) {
        const StepRecord record = trainer.train_step();
        values.push_back(static_cast<float>(record.loss));
        values.push_back(static_cast<float>(record.grad_norm));
      }
      trainer.params().await_weights();
      for (const OwnedSlice& slice : trainer.params().owned()) {
        add(slice.value);
        if (slice.master) add(slice.master);
      }
      for (const NamedTensor& named : trainer.optimizer().state()) add(named.tensor);
      EXPECT_EQ(trainer.arena().peaks(), predicted.categories()) << join(settings, " ");
      EXPECT_EQ(trainer.arena().peak(), predicted.peak) << join(settings, " ");
      EXPECT_EQ(trainer.arena().reserved(), predicted.reserved) << join(settings, " ");
      const HostArena* host = trainer.offload();
      ASSERT_EQ(host != nullptr, config.memory.offload != Offload::None) << join(settings, " ");
      EXPECT_EQ(predicted.optimizer == 0, config.memory.offloads_optimizer());
      EXPECT_EQ(predicted.host_optimizer > 0, config.memory.offloads_optimizer());
      EXPECT_EQ(predicted.host_activations > 0, config.memory.offloads_activations());
      if (host == nullptr) return;
      EXPECT_EQ(host->peak(Category::Optimizer), predicted.host_optimizer);
      EXPECT_EQ(host->peak(Category::Activations), predicted.host_activations);
      EXPECT_EQ(host->reserved(), predicted.host) << join(settings, " ");
    });
    return of;
  }
  void expect_same_bits(const Settings& settings) {
    const std::vector<std::vector<float>> plain = train(settings);
    for (const char* what : {"optimizer", "activations", "both"})
      EXPECT_TRUE(plain == train(settings + Settings{concat("memory.offload=", what)}))
          << what << ": " << join(settings, " ");
  }

  const Settings kOffloaded = {"memory.offload=optimizer"};
};

TEST_F(OffloadTest, ChangesNoBitOfAnyRecipe) {
  for (const Settings& recipe :
       {Settings{}, Settings{"precision.compute=bf16"},
        Settings{"precision.compute=bf16", "precision.grads=bf16", "precision.moments=bf16"},
        Settings{"precision.compute=bf16", "precision.moments=bf16", "precision.master=none"},
        Settings{"precision.compute=fp16"}, Settings{"optim.name=sgd", "optim.momentum=0.9"}})
    expect_same_bits(kGrouped + recipe);
}

TEST_F(OffloadTest, ChangesNoBitOverAnyAxis) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=1"},
        Settings{"parallel.shard=3", "parallel.zero=2"},
        Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2), context(2, "ring"),
        Settings{"parallel.pp=2"}, Settings{"parallel.pp=2", "parallel.schedule=zb-v"},
        Settings{"parallel.pp=2", "parallel.schedule=dualpipe"},
        Settings{"parallel.pp=2", "parallel.tp=2", "parallel.shard=2", "parallel.zero=3"}})
    expect_same_bits(kGpt + layout);
}

TEST_F(OffloadTest, ChangesNoBitWithRecomputation) {
  for (const char* recompute : {"cheap", "selective", "full"})
    for (const Settings& family : {kGpt, kGrouped, kNormed})
      expect_same_bits(family + Settings{concat("memory.recompute=", recompute),
                                         "model.dropout=0.1", "memory.recompute_layers=3"});
}

TEST_F(OffloadTest, ChangesNoBitOfExperts) {
  const Settings experts = {"model.family=mixtral", "model.experts=4",  "model.hidden=24",
                            "model.heads=4",        "model.kv_heads=2", "model.expert_ffn=24",
                            "model.vocab=259",      "model.seq=16"};
  expect_same_bits(experts);
  // The balance loss reads counts that two slots hold with different shapes.
  expect_same_bits(experts + Settings{"train.balance_loss=0.01"});
}

// All layers of blocks keep their activations on the host; two layers' are on the device at once.
TEST_F(OffloadTest, ActivationsOnTheDeviceDoNotGrowWithTheLayers) {
  const auto memory = [&](int layers, const Settings& more) {
    return preflight(
               config_of(kGpt + Settings{concat("model.layers=", layers), "batch.accumulation=1"} +
                         more),
               0)
        .memory[0];
  };
  const Settings offloaded = {"memory.offload=activations"};
  const int64_t layer = memory(5, {}).activations - memory(4, {}).activations;
  EXPECT_EQ(memory(8, offloaded).activations, memory(4, offloaded).activations);
  EXPECT_EQ(memory(8, offloaded).host_activations - memory(4, offloaded).host_activations,
            4 * layer);
}

TEST_F(OffloadTest, ActivationsArriveDuringTheLayerBefore) {
  const Config config = config_of(kGpt + Settings{"memory.offload=activations"});
  const Preflight flight = preflight(config, 0);
  const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
  EXPECT_TRUE(find_races(trace).empty());
  // Of each layer's backward: the copies that it waits for were issued before the backward of the
  // layer after it.
  int ahead = 0;
  for (size_t i = 1; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    if (op.lane != Trace::kCompute || std::strcmp(op.scope.pass, "backward") != 0) continue;
    for (const uint32_t wait : trace.waits_of(op)) {
      if (std::strcmp(trace.ops[wait].name, "fetch") != 0) continue;
      int between = 0;
      for (size_t k = wait; k < i; ++k)
        between += trace.ops[k].lane == Trace::kCompute &&
                   std::strcmp(trace.ops[k].scope.pass, "backward") == 0 &&
                   trace.ops[k].scope.layer == op.scope.layer + 1;
      EXPECT_GT(between, 0) << "layer " << op.scope.layer;
      ++ahead;
    }
  }
  EXPECT_EQ(ahead, 2 * 4 * 8) << "two steps of four micro-batches, eight layers";
  // A layer that does not wait for its activations, or memory that is reused before it was copied.
  for (const char* copy : {"fetch", "store"}) {
    Trace hasty = trace;
    for (TraceOp& op : hasty.ops)
      for (uint32_t k = op.waits; op.lane == Trace::kCompute && k < op.waits_end; ++k)
        if (std::strcmp(hasty.ops[hasty.wait_list[k]].name, copy) == 0)
          hasty.wait_list[k--] = hasty.wait_list[--op.waits_end];
    EXPECT_FALSE(find_races(hasty, 1).empty()) << copy;
  }
}

// Masters and moments: 12 bytes per parameter of bf16, of which two buffers stay on the device.
TEST_F(OffloadTest, HostMemoryIsMastersAndMoments) {
  const Settings narrow =
      kGpt + Settings{"precision.compute=bf16", "model.hidden=64", "model.vocab=256"};
  const Preflight plain = preflight(config_of(narrow), 0),
                  offloaded = preflight(config_of(narrow + kOffloaded), 0);
  const MemoryEstimate &before = plain.memory[0], &after = offloaded.memory[0];
  EXPECT_EQ(before.optimizer, 12 * plain.blueprint.parameters());
  EXPECT_EQ(before.host, 0);
  EXPECT_EQ(after.host_optimizer, before.optimizer);
  EXPECT_GE(after.host, before.optimizer);
  EXPECT_LT(after.host, before.optimizer + 64 * 3 * 8) << "aligned tensors of six groups";
  EXPECT_EQ(after.optimizer, 0);
  EXPECT_LT(after.reserved, before.reserved);
  EXPECT_NE(memory_text(offloaded).find("\nhost       0 "), std::string::npos);
  EXPECT_EQ(memory_text(plain).find("host"), std::string::npos);
  // Nothing to offload.
  const Settings none = kGpt + Settings{"optim.name=sgd", "optim.momentum=0"};
  EXPECT_EQ(preflight(config_of(none + kOffloaded), 0).memory,
            preflight(config_of(none), 0).memory);
}

TEST_F(OffloadTest, TheStateOfTheNextGroupArrivesDuringAnUpdate) {
  const Config config = config_of(kGpt + kOffloaded);
  const Preflight flight = preflight(config, 0);
  const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
  EXPECT_TRUE(find_races(trace).empty());
  const auto named = [&](size_t i, const char* name) {
    return std::strcmp(trace.ops[i].name, name) == 0;
  };
  // Of each update but the last of a step: its own state was fetched before, two copies of the next
  // group's are issued before it, and it does not wait for these.
  int fetched_ahead = 0, updates = 0;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (!named(i, "adamw")) continue;
    ++updates;
    if (!named(i - 1, "fetch")) continue;
    ++fetched_ahead;
    for (const uint32_t wait : trace.waits_of(trace.ops[i])) EXPECT_LT(wait, i - 2);
  }
  EXPECT_GE(updates, 2 * 5) << "two steps, four blocks and the embedding at least";
  EXPECT_EQ(fetched_ahead, updates - 2) << "all but the last of each step";
  // Without the waits of updates for their copies there are races.
  Trace hasty = trace;
  for (TraceOp& op : hasty.ops)
    if (std::strcmp(op.name, "adamw") == 0) op.waits_end = op.waits;
  EXPECT_FALSE(find_races(hasty, 1).empty());
}

TEST_F(OffloadTest, ACheckpointGoesOnWithAndWithoutIt) {
  const Settings model = kGrouped + Settings{"precision.compute=bf16"};
  const double plain = loss_over(model, {{}, {}});
  EXPECT_EQ(loss_over(model, {kOffloaded, {}}), plain);
  EXPECT_EQ(loss_over(model, {{}, kOffloaded}), plain);
  EXPECT_EQ(loss_over(model, {{"memory.offload=both"}, kOffloaded}), plain);
}

TEST_F(OffloadTest, WhatCannotBeIsRefused) {
  EXPECT_ERROR(
      config_of(kGpt + kOffloaded + Settings{"parallel.pp=2", "optim.post_validation=true"}),
      Config, "optim.post_validation = true");
  EXPECT_ERROR(config_of({"model.preset=tiny-mixtral", "parallel.dp=2", "parallel.ep=2",
                          "memory.offload=both"}),
               Config, "memory.offload = optimizer works");
  EXPECT_ERROR(train(kGpt + kOffloaded + Settings{"memory.offload_dir=/nowhere/at/all"}), Failure,
               "/nowhere/at/all");
}

class CudaOffload : public OffloadTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
  const Settings kCuda = {"run.device=cuda", "run.cudnn_backward=false"};
};

TEST_F(CudaOffload, ChangesNoBitOfAnyRecipe) {
  for (const Settings& recipe :
       {Settings{}, Settings{"precision.compute=bf16"}, Settings{"precision.compute=fp16"},
        Settings{"optim.name=sgd", "optim.momentum=0.9"}, Settings{"memory.recompute=selective"}})
    expect_same_bits(kGrouped + recipe + kCuda);
}

TEST_F(CudaOffload, ChangesNoBitOverAnyAxis) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2),
        context(2, "ring"), Settings{"parallel.pp=2", "parallel.schedule=zb-v"}})
    expect_same_bits(kGpt + layout + kCuda);
}

TEST_F(CudaOffload, ACheckpointGoesOnWithAndWithoutIt) {
  const Settings model = kGrouped + Settings{"precision.compute=bf16"} + kCuda;
  const double plain = loss_over(model, {{}, {}});
  EXPECT_EQ(loss_over(model, {kOffloaded, {}}), plain);
  EXPECT_EQ(loss_over(model, {{}, kOffloaded}), plain);
  EXPECT_EQ(loss_over(model, {{"memory.offload=both"}, kOffloaded}), plain);
}

TEST_F(CudaOffload, IsRightInEveryLayout) {
  for (const Settings& layout : {Settings{"parallel.dp=2"}, Settings{"parallel.pp=2"}})
    expect_right(kGrouped + layout + kCuda + Settings{"memory.offload=both"});
}

}  // namespace
}  // namespace sextant

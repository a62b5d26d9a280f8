// Experts with a capacity in whole runs: what is dropped, by which layout, and how it is counted.
#include <mutex>

#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "train/phantom.h"

namespace sextant {
namespace {

const Settings kLimited = {"model.family=mixtral",      "model.kv_heads=4",    "model.experts=8",
                           "model.experts_per_token=2", "model.expert_ffn=12", "run.threads=1",
                           "train.capacity_factor=1"};

class CapacityTest : public LayoutTest {
 protected:
  CapacityTest() : LayoutTest(kLimited) {}

  // Logits of weights that small are zero, and of equal logits the first expert is chosen.
  void expect_half_on_one_expert(const Settings& device) {
    const Settings one = {"model.experts_per_token=1", "model.experts=2", "model.init_std=1e-30"};
    for (const Settings& layout : {Settings{}, Settings{"parallel.tp=2", "parallel.ep=2"}}) {
      const RoutingRecord record = routing_of(device + one + layout);
      // Half of the 32 tokens of each of 2 micro-batches fit.
      for (const std::vector<int64_t>& layer : record.expert_tokens)
        EXPECT_EQ(layer, (std::vector<int64_t>{4 * 16, 0}));
      EXPECT_EQ(record.dropped, 2 * 2 * 16) << join(layout, " ");
      EXPECT_EQ(record.dropped_share(), 0.5);
    }
  }

  // Of the first step.
  RoutingRecord routing_of(const Settings& layout) {
    std::mutex mutex;
    RoutingRecord out;
    on_ranks(config_of(layout), [&](Trainer& trainer, const MemoryEstimate&) {
      const StepRecord record = trainer.train_step();
      const std::lock_guard lock(mutex);
      out = record.routing.value();
    });
    return out;
  }
};

TEST_F(CapacityTest, EveryLayoutDropsTheSameTokens) {
  const RoutingRecord alone = routing_of({});
  EXPECT_GT(alone.dropped, 20);
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2", "batch.accumulation=1"},
        Settings{"parallel.tp=2"}, Settings{"parallel.tp=2", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2"},
        context(2, "ulysses") + Settings{"parallel.tp=2", "parallel.ep=4"},
        context(4, "allgather")}) {
    const RoutingRecord split = routing_of(layout);
    EXPECT_EQ(split.dropped, alone.dropped) << join(layout, " ");
    EXPECT_EQ(split.expert_tokens, alone.expert_tokens) << join(layout, " ");
  }
}

TEST_F(CapacityTest, EveryLayoutComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2", "train.balance_loss=0.1"},
        context(2, "allgather") + Settings{"parallel.tp=2", "train.capacity_factor=1.25"},
        Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=full"},
        Settings{"parallel.dp=2", "parallel.ep=2", "model.router=softmax-before"},
        Settings{"parallel.pp=2", "parallel.dp=2", "parallel.ep=2", "model.layers=4",
                 "batch.accumulation=4", "parallel.schedule=dualpipe"}})
    expect_right(layout);
}

// The load that moves a bias is that of all choices, dropped or not.
TEST_F(CapacityTest, SigmoidRoutersComputeWhatOneRankDoes) {
  expect_right({"parallel.dp=2", "parallel.ep=2", "model.router=sigmoid"});
  expect_right({"parallel.tp=2", "parallel.ep=2", "model.router=sigmoid"});
}

TEST_F(CapacityTest, ACapacityOfOneRanksTokensIsFound) {
  EXPECT_FALSE(wrong_tensors({"parallel.tp=2", "fault.inject=local_capacity"}).empty());
}

TEST_F(CapacityTest, AllTokensOnOneExpertAreCountedAndBounded) {
  expect_half_on_one_expert({});
}

// Nothing beyond the capacity arrives, so the worst case is the capacity.
TEST_F(CapacityTest, TheWorstCaseIsTheCapacity) {
  const Settings layout = {"parallel.dp=4", "parallel.ep=4", "batch.accumulation=1"};
  const auto worst = [&](const char* factor) {
    const Preflight flight =
        preflight(config_of(layout + Settings{concat("train.capacity_factor=", factor)}), 0);
    return flight.expert_memory.value().worst;
  };
  const Preflight balanced = preflight(config_of(layout + Settings{"memory.experts=1"}), 0);
  EXPECT_EQ(worst("1"), balanced.expert_memory.value().balanced);
  EXPECT_LT(worst("1"), worst("1.5"));
  EXPECT_LT(worst("1.5"), worst("1000"));
  expect_predicted_memory(layout);
  expect_predicted_memory({"parallel.tp=2", "parallel.ep=2"});
  expect_predicted_memory(context(2, "ring") + Settings{"parallel.ep=2"});
}

TEST_F(CapacityTest, CapacitiesThatMakeNoSenseAreRefused) {
  EXPECT_ERROR(config_of({"train.capacity_factor=0.5"}), Config,
               "train.capacity_factor = 0.5: takes 1 or more, such as 1.25, or 0");
}

class CudaCapacity : public CapacityTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
  const Settings cuda_ = {"run.device=cuda"};
};

// A choice between two logits that are as close as rounding may differ from the CPU's.
TEST_F(CudaCapacity, EveryLayoutDropsTheSameTokens) {
  const RoutingRecord alone = routing_of(cuda_);
  EXPECT_GT(alone.dropped, 20);
  EXPECT_NEAR(alone.dropped, routing_of({}).dropped, 2);
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2", "batch.accumulation=1"},
        Settings{"parallel.tp=2"}, Settings{"parallel.tp=2", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2"}}) {
    const RoutingRecord split = routing_of(layout + cuda_);
    EXPECT_EQ(split.dropped, alone.dropped) << join(layout, " ");
    EXPECT_EQ(split.expert_tokens, alone.expert_tokens) << join(layout, " ");
  }
}

TEST_F(CudaCapacity, AllTokensOnOneExpertAreCountedAndBounded) {
  expect_half_on_one_expert(cuda_);
}

TEST_F(CudaCapacity, EveryLayoutComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
        context(2, "allgather") + Settings{"parallel.tp=2", "train.capacity_factor=1.25"},
        Settings{"parallel.dp=2", "parallel.ep=2", "model.router=sigmoid",
                 "memory.recompute=full"}})
    expect_right(layout + cuda_);
  EXPECT_FALSE(
      wrong_tensors(Settings{"parallel.tp=2", "fault.inject=local_capacity"} + cuda_).empty());
  expect_predicted_memory(Settings{"parallel.tp=2", "parallel.ep=2"} + cuda_);
}

}  // namespace
}  // namespace sextant

// The tokens over which balance losses are taken, in whole runs.
#include <mutex>

#include "support/layouts.h"
#include "support/needs_gpu.h"

namespace sextant {
namespace {

const Settings kBalanced = {"model.family=mixtral",   "model.kv_heads=4",
                            "model.experts=8",        "model.experts_per_token=2",
                            "model.expert_ffn=12",    "run.threads=1",
                            "train.balance_loss=0.1", "train.router_z_loss=0.01"};
const Settings kSequence = {"train.balance_scope=sequence"},
               kGlobal = {"train.balance_scope=global"};
class BalanceTest : public LayoutTest {
 protected:
  BalanceTest() : LayoutTest(kBalanced) {}

  // Of the last of some steps.
  RoutingRecord routing_of(const Settings& settings, int steps = 1) {
    std::mutex mutex;
    RoutingRecord out;
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < steps; ++step) {
        const StepRecord record = trainer.train_step();
        const std::lock_guard lock(mutex);
        out = record.routing.value();
      }
    });
    return out;
  }
};

TEST_F(BalanceTest, EveryLayoutHasTheLossesOfOneRank) {
  for (const Settings& scope : {kSequence, kGlobal})
    for (const Settings& layout :
         {Settings{"parallel.dp=4", "parallel.ep=2"},
          Settings{"parallel.tp=4", "parallel.ep=2"},  // half a sequence of two on each rank
          context(2, "ring") + Settings{"parallel.tp=2", "parallel.ep=4"},
          Settings{"parallel.shard=2", "parallel.dp=2", "parallel.zero=3", "parallel.ep=2"},
          Settings{"parallel.pp=2", "parallel.dp=2", "parallel.ep=2", "model.layers=4",
                   "batch.accumulation=4", "parallel.schedule=dualpipe"}})
      expect_right(scope + layout + Settings{"memory.recompute=full"});
}

TEST_F(BalanceTest, OtherRoutersAndTypesHaveTheLossesOfOneRank) {
  for (const Settings& scope : {kSequence, kGlobal}) {
    const Settings layout = scope + Settings{"parallel.tp=2", "parallel.ep=2"};
    expect_right(layout + Settings{"model.router=sigmoid"});
    expect_right(layout + Settings{"train.capacity_factor=1"});
    EXPECT_NE(verify(layout + Settings{"precision.compute=bf16"}).verdict, Verdict::Bug);
  }
}

// Two sequences in one micro-batch or in two.
TEST_F(BalanceTest, TheLossOfSequencesIsThatOfMicroBatchesOfOneSequence) {
  const RoutingRecord both = routing_of(kSequence);
  const RoutingRecord each = routing_of({"batch.micro=1", "batch.accumulation=4"});
  EXPECT_NEAR(both.balance_loss, each.balance_loss, 1e-12);
  EXPECT_NEAR(both.router_z_loss, each.router_z_loss, 1e-9);
  EXPECT_EQ(both.expert_tokens, each.expert_tokens);
  EXPECT_GT(both.balance_loss, routing_of({}).balance_loss + 1e-3);  // of fewer tokens
}

// No load is known before the first step: the loss is 1, and has no gradient.
TEST_F(BalanceTest, TheLossOfTheGlobalBatchBeginsAfterTheFirstStep) {
  EXPECT_NEAR(routing_of(kGlobal).balance_loss, 1, 1e-7);
  const RoutingRecord second = routing_of(kGlobal, 2);
  EXPECT_GT(std::abs(second.balance_loss - 1), 1e-4);
  EXPECT_NEAR(
      routing_of(kGlobal + Settings{"parallel.dp=4", "batch.accumulation=1", "batch.micro=1"}, 2)
          .balance_loss,
      second.balance_loss, 1e-6);
}

// The load is in checkpoints, so a run that goes on in another layout goes on alike.
TEST_F(BalanceTest, TheLoadOfTheGlobalBatchGoesOnInAnyLayout) {
  const Settings model = kGlobal + Settings{"batch.accumulation=4", "train.balance_loss=10"};
  const Settings alone, split = {"parallel.dp=4", "parallel.ep=4", "batch.accumulation=1"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts : {std::vector<Settings>{split, alone}, {alone, split}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-5 * wanted);
}

// As from the start of a run: no load is known.
TEST_F(BalanceTest, ARunGoesOnInAnotherScope) {
  const Settings micro = {"train.balance_scope=micro"};
  const double wanted = loss_over({}, {micro});
  for (const std::vector<Settings>& scopes :
       {std::vector<Settings>{micro, kGlobal}, {kGlobal, micro}})
    EXPECT_NEAR(loss_over({}, scopes), wanted, 1e-2 * wanted);
}

TEST_F(BalanceTest, ALoadOfOneRanksTokensIsFoundAndNamed) {
  EXPECT_EQ(wrong_tensors(kGlobal + Settings{"parallel.dp=4", "parallel.ep=2",
                                             "fault.inject=local_load:rank=1"}),
            (std::vector<std::string>{"layers.0.moe.router.load", "layers.1.moe.router.load"}));
}

TEST_F(BalanceTest, EveryScopeHasThePredictedMemory) {
  for (const Settings& scope : {kSequence, kGlobal})
    expect_predicted_memory(scope + Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=2"});
}

TEST_F(BalanceTest, ScopesThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of(kGlobal + Settings{"precision.compute=bf16", "precision.grads=bf16"}),
               Config, "train.balance_scope = global needs precision.grads = fp32");
}

class CudaBalance : public BalanceTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
  const Settings cuda_ = {"run.device=cuda"};
};

TEST_F(CudaBalance, EveryScopeHasTheLossesOfOneRankInThePredictedMemory) {
  for (const Settings& scope : {kSequence, kGlobal}) {
    for (const Settings& layout :
         {Settings{"parallel.dp=4", "parallel.ep=2"}, Settings{"parallel.tp=4", "parallel.ep=2"},
          context(2, "ring") + Settings{"parallel.tp=2", "parallel.ep=4"},
          Settings{"parallel.dp=2", "parallel.ep=2", "model.router=sigmoid"}})
      expect_right(scope + layout + cuda_);
    expect_predicted_memory(scope + Settings{"parallel.tp=2", "parallel.ep=2"} + cuda_);
  }
}

// The loss of the second step has the load of the first.
TEST_F(CudaBalance, LossesAreThoseOfTheCpu) {
  for (const Settings& scope : {kSequence, kGlobal}) {
    const RoutingRecord cpu = routing_of(scope, 2), gpu = routing_of(scope + cuda_, 2);
    EXPECT_NEAR(gpu.balance_loss, cpu.balance_loss, 1e-2 * cpu.balance_loss);
    EXPECT_NEAR(gpu.router_z_loss, cpu.router_z_loss, 1e-3 * cpu.router_z_loss);
  }
}

TEST_F(CudaBalance, ALoadOfOneRanksTokensIsFoundAndNamed) {
  EXPECT_EQ(
      wrong_tensors(kGlobal + cuda_ +
                    Settings{"parallel.dp=4", "parallel.ep=2", "fault.inject=local_load:rank=1"}),
      (std::vector<std::string>{"layers.0.moe.router.load", "layers.1.moe.router.load"}));
}

}  // namespace
}  // namespace sextant

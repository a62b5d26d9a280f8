// Expert tensor parallel (etp), in whole runs.
#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "train/phantom.h"

namespace sextant {
namespace {

class ExpertTensorTest : public LayoutTest {
 protected:
  ExpertTensorTest()
      : LayoutTest({"model.family=mixtral", "model.kv_heads=4", "model.experts=8",
                    "model.experts_per_token=2", "model.expert_ffn=12", "run.threads=1",
                    "parallel.etp=2"}) {}

  const Settings losses_ = {"train.balance_loss=0.1", "train.router_z_loss=0.01"};
  const Settings besides_ = {"model.layers=3", "model.dense_layers=1", "model.ffn=24",
                             "model.shared_experts=2"};
  const Settings two_by_two_ = {"parallel.dp=4", "parallel.ep=2"};
};

// Parts of experts over the tp ranks, over the dp, shard or cp ranks, over several of them; with
// replicas and without.
TEST_F(ExpertTensorTest, EveryPlacementComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.tp=2"}, Settings{"parallel.dp=2", "batch.accumulation=1"},
        Settings{"parallel.dp=4"}, two_by_two_, Settings{"parallel.dp=8", "parallel.ep=2"},
        Settings{"parallel.dp=6", "parallel.etp=3"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.etp=4"},
        Settings{"parallel.tp=2", "parallel.dp=4", "parallel.ep=4", "parallel.tp_overlap=true"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=2", "model.dropout=0.1"}})
    expect_right(layout + losses_);
}

TEST_F(ExpertTensorTest, ContextParallelComputesWhatOneRankDoes) {
  for (const char* kind : {"ring", "allgather", "ulysses"})
    for (const Settings& more :
         {Settings{}, Settings{"parallel.tp=2", "parallel.ep=2", "parallel.dp=2"}})
      expect_right(context(2, kind) + more + losses_);
  expect_right(context(4, "ring+ulysses") + Settings{"parallel.ep=2"});
}

TEST_F(ExpertTensorTest, ZeroComputesWhatOneRankDoes) {
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    expect_right({"parallel.shard=4", zero});
    expect_right({"parallel.shard=2", zero});  // one replica: nothing to shard
    expect_right({"parallel.shard=4", "parallel.dp=2", "parallel.ep=2", zero});
    expect_right({"parallel.shard=2", "parallel.tp=2", "parallel.ep=2", zero});
  }
}

TEST_F(ExpertTensorTest, PipelinesComputeWhatOneRankDoes) {
  for (const char* schedule : {"1f1b", "zb-v", "dualpipe", "dualpipe-v"})
    for (const Settings& more :
         {Settings{"parallel.tp=2"},
          Settings{"parallel.shard=2", "parallel.zero=2", "parallel.tp=2", "parallel.ep=2"}})
      expect_right(Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4",
                            concat("parallel.schedule=", schedule)} +
                   more);
}

TEST_F(ExpertTensorTest, RoutersAndCapacitiesComputeWhatOneRankDoes) {
  for (const char* router : {"softmax-after", "softmax-before", "sigmoid", "balanced"}) {
    const Settings routed = {concat("model.router=", router)};
    expect_right(two_by_two_ + routed);
    expect_right(besides_ + routed + Settings{"parallel.tp=2", "train.capacity_factor=1"});
  }
  expect_right(two_by_two_ + Settings{"train.capacity_factor=1"});
  expect_right(two_by_two_ + Settings{"model.experts=64", "model.experts_per_token=1"});
}

TEST_F(ExpertTensorTest, RecomputationAndNarrowTypesComputeWhatOneRankDoes) {
  for (const char* recompute : {"cheap", "selective", "full"})
    expect_right(two_by_two_ + besides_ + Settings{concat("memory.recompute=", recompute)});
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    for (const Settings& layout : {two_by_two_, Settings{"parallel.tp=2"}})
      EXPECT_NE(verify(layout + Settings{compute}).verdict, Verdict::Bug) << compute;
}

// The parts of an expert's output are summed in rank order, so pipelines and ZeRO change nothing,
// and ep only the order in which the tokens of an expert are summed.
TEST_F(ExpertTensorTest, LayoutsWithTheSamePartsHaveTheSameBits) {
  EXPECT_EQ(verify({"model.tied=false", "parallel.dp=2", "parallel.pp=2"}, "dp=2,etp=2").verdict,
            Verdict::Equal);
  EXPECT_EQ(
      verify({"parallel.shard=2", "parallel.zero=1", "parallel.tp=2"}, "dp=2,tp=2,etp=2").verdict,
      Verdict::Equal);
  const VerifyReport spread = verify(two_by_two_, "dp=4,etp=2");
  EXPECT_EQ(spread.loss_max_rel, 0);
  for (const TensorVerdict& tensor : spread.tensors)
    if (tensor.name.find(".experts.") == std::string::npos) {
      EXPECT_EQ(tensor.grad_max_rel, 0) << tensor.name;
    }
}

// Whole tensors are saved: of parts and of whole experts, divided by ZeRO and not.
TEST_F(ExpertTensorTest, CheckpointsGoOnInAnyLayout) {
  const Settings model = {"batch.accumulation=4"}, four = {"batch.accumulation=1"};
  const Settings alone = {"parallel.etp=1"}, parts = four + two_by_two_,
                 quarters =
                     four + Settings{"parallel.shard=4", "parallel.zero=3", "parallel.etp=4"},
                 spread = four + Settings{"parallel.shard=4", "parallel.zero=2", "parallel.ep=2",
                                          "parallel.etp=1"},
                 piped = {"parallel.pp=2", "parallel.tp=2"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts :
       {std::vector<Settings>{parts, alone, quarters, piped}, {spread, parts}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-5 * wanted);
}

TEST_F(ExpertTensorTest, MemoryIsThePredictedOneWhateverTheRouting) {
  for (const Settings& layout :
       {Settings{"parallel.tp=2"}, two_by_two_ + Settings{"memory.experts=3"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2", "memory.recompute=full"},
        two_by_two_ + besides_ + Settings{"train.capacity_factor=1.25"},
        // Five replicas, whose parts of 768 elements differ in size.
        Settings{"parallel.shard=10", "parallel.zero=1", "model.expert_ffn=2"}})
    expect_predicted_memory(layout);
  EXPECT_ERROR(on_ranks(config_of(two_by_two_ + Settings{"memory.experts=1"}),
                        [](Trainer& trainer, const MemoryEstimate&) { trainer.train_step(); }),
               Memory, "rows for experts");
}

// With balanced routing every rank of etp has k T rows after the dispatch. They are gathered and
// summed in forward and in backward, in each of 2 layers and 2 micro-batches.
TEST_F(ExpertTensorTest, BalancedRoutingSendsWhatTheFormulaSays) {
  const int64_t tokens = 2 * 16, hidden = 32;
  for (const int etp : {2, 4}) {
    const Settings layout = {concat("parallel.dp=", 2 * etp), "parallel.ep=2",
                             concat("parallel.etp=", etp), "model.router=balanced"};
    on_ranks(config_of(layout), [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      const TrafficTable& sent = trainer.mesh().world().ledger().traffic;
      const int64_t rows = 2 * tokens * hidden * 2 * 2 * 2;
      EXPECT_EQ(sent.of("etp", Operation::AllGather).elements, (etp - 1) * rows);
      EXPECT_EQ(sent.of("etp", Operation::ReduceScatter).elements, (etp - 1) * rows);
      EXPECT_EQ(sent.of("ep", Operation::AllToAll).elements, 2 * rows / 2);
      EXPECT_EQ(sent.of("etp+ep", Operation::AllGather).calls, 2 * 2);
    });
  }
}

TEST_F(ExpertTensorTest, MistakesAreFoundAndNamed) {
  const auto wrong = [&](const Settings& layout, const char* fault) {
    return wrong_tensors(layout + Settings{concat("fault.inject=", fault)});
  };
  for (const Settings& layout : {two_by_two_, Settings{"parallel.tp=2"}}) {
    const std::vector<std::string> alone = wrong(layout, "drop_expert_sum");
    EXPECT_TRUE(std::ranges::count(alone, "layers.0.moe.experts.gate_up.weight") == 1);
    EXPECT_TRUE(std::ranges::count(alone, "layers.0.moe.norm.weight") == 1);
  }
  EXPECT_EQ(wrong({"parallel.dp=4"}, "mean_over_edp"),
            (std::vector<std::string>{
                "layers.0.moe.experts.gate_up.weight", "layers.0.moe.experts.down.weight",
                "layers.1.moe.experts.gate_up.weight", "layers.1.moe.experts.down.weight"}));
  EXPECT_ERROR(preflight(config_of({"parallel.etp=1", "fault.inject=drop_expert_sum"}), 0), Config,
               "without parallel.etp above 1 no expert is shared");
}

TEST_F(ExpertTensorTest, ThePreFlightTableNamesTheParts) {
  const ResolvedConfig resolved = resolve({"parallel.dp=8", "parallel.ep=2"});
  const std::string text = preflight_text(preflight(resolved.config, 0), resolved);
  for (const char* part :
       {"4 of 8 on each of 2 ranks of ep, in parts on 2 ranks of etp, 2 replicas", "etp all_gather",
        "etp reduce_scatter", "dp8 x ep2 x etp2"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(ExpertTensorTest, LayoutsThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of({"parallel.dp=2", "parallel.ep=2"}), Config,
               "parallel.ep = 2 x etp = 2 does not divide the 2 ranks of a pipeline stage (dp x "
               "shard x cp x tp): parallel.etp = 1 works");
  EXPECT_ERROR(config_of({"parallel.dp=8", "parallel.etp=8"}), Config,
               "parallel.etp = 8 does not divide model.expert_ffn = 12: parallel.etp = 4 works");
  EXPECT_ERROR(config_of({"parallel.dp=2", "model.family=llama", "model.experts=0",
                          "model.experts_per_token=0", "model.expert_ffn=0"}),
               Config, "parallel.etp = 2 with model.family = llama, which has no experts");
  EXPECT_ERROR(config_of({"parallel.dp=2", "memory.offload=activations"}), Config,
               "memory.offload = optimizer works");
}

class CudaExpertTensor : public ExpertTensorTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
  const Settings cuda_ = {"run.device=cuda"};
};

TEST_F(CudaExpertTensor, EveryPlacementComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.tp=2"}, Settings{"parallel.dp=2", "batch.accumulation=1"}, two_by_two_,
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.etp=4"},
        context(2, "ring") + Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"}})
    expect_right(layout + losses_ + cuda_);
  for (const char* router : {"softmax-before", "sigmoid", "balanced"})
    expect_right(two_by_two_ + besides_ + cuda_ +
                 Settings{concat("model.router=", router), "train.capacity_factor=1"});
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify(two_by_two_ + cuda_ + Settings{compute}).verdict, Verdict::Bug) << compute;
}

TEST_F(CudaExpertTensor, LayoutsWithTheSamePartsHaveTheSameForward) {
  const VerifyReport spread = verify(two_by_two_ + cuda_, "dp=4,etp=2");
  EXPECT_EQ(spread.loss_max_rel, 0);
  for (const Settings& layout : {Settings{"parallel.tp=2"}, two_by_two_})
    expect_predicted_memory(layout + cuda_);
}

TEST_F(CudaExpertTensor, MistakesAreFoundAndNamed) {
  const std::vector<std::string> wrong =
      wrong_tensors(two_by_two_ + cuda_ + Settings{"fault.inject=drop_expert_sum"});
  EXPECT_TRUE(std::ranges::count(wrong, "layers.0.moe.experts.gate_up.weight") == 1);
}

}  // namespace
}  // namespace sextant

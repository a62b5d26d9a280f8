// Multi-head latent attention, sigmoid routers, shared experts and dense layers in whole runs.
#include <map>

#include "schedule/make_schedule.h"
#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "train/phantom.h"

namespace sextant {
namespace {

// In groups, beside shared experts and after a dense layer.
const Settings kSigmoid = {"model.layers=3",         "model.dense_layers=1",
                           "model.ffn=24",           "model.shared_experts=2",
                           "model.router=sigmoid",   "model.router_groups=4",
                           "model.router_scale=2.5", "model.groups_per_token=2",
                           "model.experts=8",        "model.experts_per_token=2",
                           "model.expert_ffn=12",    "run.threads=1"};
const Settings kAuxLosses = {"train.balance_loss=0.1", "train.router_z_loss=0.01"};
const Settings kOnGpu = {"run.device=cuda"};

class SigmoidTest : public LayoutTest {
 protected:
  SigmoidTest() : LayoutTest(kSigmoid + Settings{"model.family=mixtral", "model.kv_heads=4"}) {}
};

TEST_F(SigmoidTest, SigmoidRoutersWithSharedExpertsComputeWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.shard=2", "parallel.zero=1"},
        Settings{"parallel.shard=4", "parallel.zero=2", "parallel.ep=2"},
        Settings{"parallel.shard=2", "parallel.dp=2", "parallel.zero=3", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2"},
        context(2, "allgather") + Settings{"parallel.tp=2"},
        Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=full"},
        Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=cheap"},
        Settings{"parallel.dp=2", "model.router_normalize=false"}})
    expect_right(layout + kAuxLosses);
}

TEST_F(SigmoidTest, SigmoidRoutersInPipelinesComputeWhatOneRankDoes) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-v", "dualpipe", "dualpipe-v"})
    expect_right(Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4",
                          "parallel.dp=2", "parallel.ep=2",
                          concat("parallel.schedule=", schedule)});
}

TEST_F(SigmoidTest, SigmoidRoutersInNarrowTypesComputeWhatOneRankDoes) {
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify(Settings{"parallel.dp=2", "parallel.ep=2", compute}).verdict, Verdict::Bug)
        << compute;
}

// The state of a bias moves by the rate alone, is in checkpoints and goes on in any layout.
TEST_F(SigmoidTest, RouterBiasesGoOnInAnyLayout) {
  const Settings model = Settings{"batch.accumulation=4", "optim.router_bias_rate=0.05"};
  const Settings alone,
      split = {"parallel.dp=4", "parallel.ep=4", "batch.accumulation=1"},
      zero = {"parallel.shard=4", "parallel.zero=3", "parallel.ep=2", "batch.accumulation=1"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts :
       {std::vector<Settings>{split, alone}, {zero, split}, {alone, zero}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-5 * wanted);
}

TEST_F(SigmoidTest, ABiasFromTheLoadOfOneRankIsFoundAndNamed) {
  const std::vector<std::string> wrong =
      wrong_tensors(Settings{"parallel.dp=4", "parallel.ep=2", "fault.inject=local_load:rank=1"});
  EXPECT_EQ(wrong,
            (std::vector<std::string>{"layers.1.moe.router.bias", "layers.2.moe.router.bias"}));
}

// With shared experts and dense layers, too, the phantom's step is the real one.
TEST_F(SigmoidTest, SharedExpertsAndDenseLayersHaveThePredictedMemory) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.shard=2", "parallel.zero=3"}})
    expect_predicted_memory(layout);
}

// Operations of the rank that are issued after each all-to-all of tokens and before it is waited
// for.
std::vector<int64_t> operations_beside_exchanges(const Trace& trace) {
  std::vector<int64_t> out;
  for (uint32_t i = 0; i < trace.ops.size(); ++i) {
    if (trace.ops[i].name != std::string_view("all_to_all")) continue;
    int64_t beside = 0;
    for (size_t j = i + 1; j < trace.ops.size(); ++j) {
      if (trace.ops[j].lane != Trace::kCompute) continue;
      if (std::ranges::count(trace.waits_of(trace.ops[j]), i) > 0) break;
      ++beside;
    }
    out.push_back(beside);
  }
  return out;
}

// Two of the three products of a gated MLP while tokens travel to the experts (with its
// activation), one while they return, its backward while gradients travel to the experts, and the
// weight gradients of these while gradients return.
TEST_F(SigmoidTest, SharedExpertsRunWhileTokensTravel) {
  const auto beside = [&](const Settings& more) {
    const Config config = config_of(
        Settings{"parallel.dp=2", "parallel.ep=2", "model.layers=2", "batch.accumulation=1"} +
        more);
    const Preflight flight = preflight(config, 0);
    std::vector<int64_t> all =
        operations_beside_exchanges(trace_phantom(config, flight, 0, flight.plans[0]));
    all.resize(4);  // of one layer with experts, first step
    return all;
  };
  EXPECT_EQ(beside({"model.shared_experts=0"}), (std::vector<int64_t>{0, 0, 0, 2}));
  const std::vector<int64_t> shared = beside({});
  EXPECT_GE(shared[0], 2);
  EXPECT_GE(shared[1], 1);
  EXPECT_GE(shared[2], 3);
  EXPECT_EQ(shared[3], 2);
}

// Exchanges of tokens by pass, in a step, and those of them that are under way while products of
// another micro-batch are computed.
struct Exchanges {
  std::map<std::string, int> all, hidden;
};
Exchanges exchanges_of(const Trace& trace) {
  Exchanges out;
  for (uint32_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& exchange = trace.ops[i];
    if (exchange.name != std::string_view("all_to_all")) continue;
    ++out.all[exchange.scope.pass];
    bool is_hidden = false;
    for (size_t j = i + 1; j < trace.ops.size(); ++j) {
      const TraceOp& op = trace.ops[j];
      if (std::ranges::count(trace.waits_of(op), i) > 0) break;
      is_hidden = is_hidden || (op.lane == Trace::kCompute && op.flops > 0 && op.scope.micro >= 0 &&
                                op.scope.micro != exchange.scope.micro);
    }
    if (is_hidden) ++out.hidden[exchange.scope.pass];
  }
  return out;
}

// All exchanges of a joined block, there and back, forward and backward, have compute of the other
// micro-batch beside them; those of other blocks have none.
TEST_F(SigmoidTest, JoinedBlocksComputeWhileRowsOfTheOtherMicroBatchTravel) {
  constexpr int kMicros = 8;
  Exchanges found;
  const auto run = [&](const char* schedule, const Settings& more) {
    const Config config = config_of(
        Settings{"parallel.pp=2", "parallel.dp=2", "parallel.ep=2", "model.layers=8",
                 "model.dense_layers=0", "model.shared_experts=0",
                 concat("batch.accumulation=", kMicros), concat("parallel.schedule=", schedule)} +
        more);
    const Preflight flight = preflight(config, 0);
    found = exchanges_of(trace_phantom(config, flight, 0, flight.plans[0]));
  };
  const auto hidden = [&](const char* pass) {
    return static_cast<double>(found.hidden[pass]) / found.all[pass];
  };
  for (const char* schedule : {"dualpipe", "dualpipe-v"}) {
    double joined = 0, forwards = 0, backwards = 0;  // of the first rank; whole backwards
    const Schedule made = make_schedule({.name = schedule, .ranks = 2, .micros = kMicros});
    for (const Action& action : made.ranks[0]) {
      joined += action.joined ? 1 : 0;
      forwards += action.kind == Kind::F ? 1 : 0;
      backwards += action.kind == Kind::B ? 1 : 0;
    }
    ASSERT_GT(joined, 0);
    run(schedule, {});
    EXPECT_DOUBLE_EQ(hidden("forward"), joined / forwards) << schedule;
    EXPECT_DOUBLE_EQ(hidden("backward"), joined / backwards) << schedule;
    run(schedule, {"memory.recompute=full"});
    for (const char* pass : {"forward", "recompute"}) EXPECT_GT(hidden(pass), 0) << schedule;
  }
  run("1f1b", {});
  EXPECT_TRUE(found.hidden.empty());
}

// With the bits of layouts that wait for each exchange, in the memory that was planned.
TEST_F(SigmoidTest, ComputeBesideExchangesChangesNoBit) {
  for (const Settings& more :
       {Settings{}, Settings{"memory.recompute=full"}, Settings{"memory.recompute=cheap"},
        Settings{"model.shared_experts=0", "train.capacity_factor=1"},
        Settings{"parallel.etp=2", "parallel.tp=2"},
        Settings{"memory.recompute=full", "parallel.dp=4", "parallel.ep=4",
                 "parallel.ep_node=2"}}) {
    const Settings layout = Settings{"parallel.pp=2",
                                     "parallel.dp=2",
                                     "parallel.ep=2",
                                     "model.layers=4",
                                     "batch.accumulation=4",
                                     "model.tied=false",
                                     "parallel.schedule=dualpipe-v"} +
                            more;
    std::string against = "dp=2,ep=2";
    if (layout.back() == "parallel.tp=2") against += ",etp=2,tp=2";
    if (layout.back() == "parallel.ep_node=2") against = "dp=4,ep=4,ep_node=2";
    EXPECT_EQ(verify(layout, against).verdict, Verdict::Equal) << join(layout, " ");
    expect_predicted_memory(layout);
  }
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"})
    for (const char* schedule : {"parallel.schedule=dualpipe", "parallel.schedule=dualpipe-v"}) {
      const Settings layout = {"parallel.pp=2",  "parallel.shard=4",     "parallel.ep=2",
                               "model.layers=4", "batch.accumulation=4", zero,
                               schedule};
      expect_right(layout);
      expect_predicted_memory(layout);
    }
}

TEST_F(SigmoidTest, SettingsOfSigmoidRoutersThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of(Settings{"model.router_groups=3"}), Config,
               "model.router_groups = 3: must divide model.experts = 8");
  EXPECT_ERROR(config_of(Settings{"model.groups_per_token=5"}), Config,
               "model.groups_per_token = 5 of model.router_groups = 4: takes 1 to 4");
  EXPECT_ERROR(config_of(Settings{"model.dense_layers=3"}), Config,
               "at least one layer has experts");
  EXPECT_ERROR(config_of(Settings{"precision.compute=bf16", "precision.grads=bf16"}), Config,
               "model.router = sigmoid needs precision.grads = fp32");
}

class CudaSigmoid : public SigmoidTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
};

TEST_F(CudaSigmoid, SigmoidRoutersWithSharedExpertsComputeWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=2"}, Settings{"parallel.dp=8", "parallel.ep=8"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.shard=2", "parallel.dp=2", "parallel.zero=3", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2"},
        Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=cheap"},
        Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4", "parallel.dp=2",
                 "parallel.ep=2", "parallel.schedule=dualpipe-v"},
        Settings{"parallel.dp=2", "model.router_normalize=false"}})
    expect_right(layout + kAuxLosses + kOnGpu);
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify(kOnGpu + Settings{"parallel.dp=2", "parallel.ep=2", compute}).verdict,
              Verdict::Bug)
        << compute;
  expect_predicted_memory(kOnGpu + Settings{"parallel.tp=2", "parallel.ep=2"});
}

// Every token of a batch moves the biases, so a choice that flips by rounding changes later losses.
TEST_F(CudaSigmoid, OneRankFollowsTheCpu) {
  const Settings steps = {"train.steps=20", "optim.lr=1e-3", "optim.router_bias_rate=0.01"};
  const std::vector<double> cpu = losses_of(steps, 20), gpu = losses_of(steps + kOnGpu, 20);
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(gpu[i], cpu[i], 1e-3 * cpu[i]) << "step " << i + 1;
}

TEST_F(CudaSigmoid, RouterBiasesGoOnOnEitherDevice) {
  const Settings model = {"batch.accumulation=4", "optim.router_bias_rate=0.05"};
  const Settings alone, split = {"parallel.dp=4", "parallel.ep=4", "batch.accumulation=1"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts :
       {std::vector<Settings>{split + kOnGpu, alone}, {alone, split + kOnGpu}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-4 * wanted);
}

TEST_F(CudaSigmoid, ABiasFromTheLoadOfOneRankIsFoundAndNamed) {
  EXPECT_EQ(wrong_tensors(kOnGpu + Settings{"parallel.dp=4", "parallel.ep=2",
                                            "fault.inject=local_load:rank=1"}),
            (std::vector<std::string>{"layers.1.moe.router.bias", "layers.2.moe.router.bias"}));
}

class DeepseekTest : public LayoutTest {
 protected:
  DeepseekTest()
      : LayoutTest(kSigmoid + Settings{"model.family=deepseek-moe", "model.kv_heads=8",
                                       "model.heads=8", "model.head_dim=6", "model.v_head_dim=4",
                                       "model.qk_rope_head_dim=2", "model.q_lora_rank=12",
                                       "model.kv_lora_rank=10"}) {}
};

TEST_F(DeepseekTest, LatentAttentionComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.tp=2", "parallel.tp_overlap=true"},
        Settings{"parallel.shard=4", "parallel.zero=1", "parallel.ep=2"},
        Settings{"parallel.shard=2", "parallel.zero=2"},
        Settings{"parallel.shard=2", "parallel.dp=2", "parallel.zero=3", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=2", "parallel.etp=2"},
        Settings{"parallel.dp=2", "model.q_lora_rank=0"}})
    expect_right(layout + kAuxLosses);
}

TEST_F(DeepseekTest, YarnMultipliesScoresInEveryLayout) {
  const Settings yarn = {"model.rope_type=yarn", "model.rope_factor=4", "model.rope_original_seq=8",
                         "model.rope_mscale=1"};
  const Settings scaled = yarn + Settings{"model.rope_mscale_all_dim=1"};
  EXPECT_NE(losses_of(yarn, 1), losses_of(scaled, 1));
  expect_right(scaled + Settings{"parallel.tp=2", "parallel.dp=2"});
  expect_right(scaled + context(2, "ring") + Settings{"parallel.shard=2", "parallel.zero=3"});
}

TEST_F(DeepseekTest, EveryKindOfContextParallelComputesWhatOneRankDoes) {
  for (const char* kind : {"ring", "allgather", "ulysses"})
    expect_right(context(2, kind) + Settings{"parallel.tp=2", "parallel.ep=2"});
}

TEST_F(DeepseekTest, PipelinesComputeWhatOneRankDoes) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-v", "dualpipe", "dualpipe-v"})
    expect_right({"parallel.pp=2", "model.layers=4", "batch.accumulation=4", "parallel.dp=2",
                  "parallel.ep=2", concat("parallel.schedule=", schedule)});
}

TEST_F(DeepseekTest, RecomputationAndNarrowTypesComputeWhatOneRankDoes) {
  for (const char* recompute : {"cheap", "selective", "full"})
    expect_right({"parallel.dp=2", "parallel.ep=2", concat("memory.recompute=", recompute)});
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify({"parallel.dp=2", "parallel.ep=2", compute}).verdict, Verdict::Bug) << compute;
}

TEST_F(DeepseekTest, MemoryIsThePredictedOne) {
  for (const Settings& layout :
       {Settings{}, Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.shard=2", "parallel.zero=3", "memory.recompute=full"}})
    expect_predicted_memory(layout);
}

TEST_F(DeepseekTest, CheckpointsGoOnInAnyLayout) {
  const Settings model = {"batch.accumulation=4"}, alone,
                 piped = {"parallel.pp=2", "parallel.tp=2", "parallel.ep=2",
                          "parallel.split=balanced"},
                 zero = {"parallel.shard=4", "parallel.zero=3", "parallel.ep=2",
                         "batch.accumulation=1"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts : {std::vector<Settings>{piped, zero}, {zero, alone}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-5 * wanted);
}

TEST_F(DeepseekTest, SizesThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of({"model.v_head_dim=8"}), Config,
               "model.v_head_dim = 8: at most model.head_dim = 6");
  EXPECT_ERROR(config_of({"model.qk_rope_head_dim=3"}), Config,
               "model.qk_rope_head_dim = 3: takes an even number below model.head_dim = 6");
  EXPECT_ERROR(config_of({"model.kv_heads=4"}), Config,
               "model.kv_heads = 4: family deepseek-moe has one for each of its 8 heads");
}

class CudaDeepseek : public DeepseekTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
};

TEST_F(CudaDeepseek, LatentAttentionComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        Settings{"parallel.shard=2", "parallel.dp=2", "parallel.zero=3", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=2", "parallel.etp=2"},
        context(2, "ulysses") + Settings{"parallel.tp=2", "parallel.ep=2"},
        context(2, "ring") + Settings{"parallel.ep=2", "model.rope_type=yarn",
                                      "model.rope_factor=4", "model.rope_original_seq=8",
                                      "model.rope_mscale=1", "model.rope_mscale_all_dim=1"},
        Settings{"parallel.dp=2", "model.q_lora_rank=0", "memory.recompute=selective"}})
    expect_right(layout + kAuxLosses + kOnGpu);
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify(kOnGpu + Settings{"parallel.dp=2", "parallel.ep=2", compute}).verdict,
              Verdict::Bug)
        << compute;
}

// The layout of configs/case-deepseek-v3.toml.
TEST_F(CudaDeepseek, NodesInADualPipelineComputeWhatOneRankDoes) {
  expect_right(kOnGpu + kAuxLosses +
               Settings{"parallel.pp=2", "model.layers=4", "batch.micro=1", "batch.accumulation=4",
                        "parallel.schedule=dualpipe", "parallel.shard=4", "parallel.zero=1",
                        "parallel.ep=4", "parallel.ep_node=2", "train.balance_scope=sequence"});
}

// One rank's steps are launched as a graph from the third one on.
TEST_F(CudaDeepseek, AStepThatIsRecordedHasTheBitsOfOneThatIsIssued) {
  for (const Settings& model : {Settings{}, Settings{"train.capacity_factor=1"}}) {
    const Settings steps = kOnGpu + kAuxLosses + model + Settings{"train.steps=6"};
    EXPECT_EQ(losses_of(steps, 6), losses_of(steps + Settings{"run.graphs=false"}, 6));
  }
}

// Heads as wide as those of DeepSeek-V3: 192 columns of queries and keys, 128 of values.
TEST_F(CudaDeepseek, OneRankFollowsTheCpu) {
  for (const Settings& sizes :
       {Settings{}, Settings{"model.head_dim=192", "model.v_head_dim=128",
                             "model.qk_rope_head_dim=64", "model.heads=2", "model.kv_heads=2"}}) {
    const Settings steps = sizes + Settings{"train.steps=10", "optim.lr=1e-3"};
    const std::vector<double> cpu = losses_of(steps, 10), gpu = losses_of(steps + kOnGpu, 10);
    ASSERT_EQ(gpu.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i)
      EXPECT_NEAR(gpu[i], cpu[i], 1e-3 * cpu[i]) << join(sizes, " ") << " step " << i + 1;
    expect_predicted_memory(sizes + kOnGpu);
  }
}

}  // namespace
}  // namespace sextant

// Mixture of experts and expert parallelism, in whole runs.
#include <algorithm>
#include <map>
#include <mutex>

#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "trace/compare.h"
#include "train/phantom.h"

namespace sextant {
namespace {

const Settings kExperts = {"model.family=mixtral",      "model.kv_heads=4",    "model.experts=8",
                           "model.experts_per_token=2", "model.expert_ffn=12", "run.threads=1"};
const Settings kCuda = {"run.device=cuda"};
const Settings kLosses = {"train.balance_loss=0.1", "train.router_z_loss=0.01"};

class ExpertsTest : public LayoutTest {
 protected:
  ExpertsTest() : LayoutTest(kExperts) {}

  void expect_what_the_phantom_did(const Settings& device) {
    for (const Settings& layout :
         {Settings{}, Settings{"parallel.dp=2", "parallel.ep=2"},
          Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
          Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4", "memory.experts=1"},
          Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=full"},
          Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=2", "model.shared_experts=2",
                   "model.layers=3", "model.dense_layers=1", "model.ffn=24"}}) {
      const Config config =
          config_of(layout + Settings{"model.router=balanced"} + kLosses + device);
      const Preflight flight = preflight(config, 0);
      const Loader data = Loader::open(
          disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
      run_world(config, clock_, nullptr, [&](Communicator& world) {
        TraceRecorder recorder;
        TrainerOptions options;
        options.recorder = &recorder;
        Mesh mesh(world, mesh_shape(config.parallel));
        const auto rank = static_cast<size_t>(world.rank());
        {
          Trainer trainer(config, flight, mesh, data, disk_, clock_, options);
          rehearse(trainer, config);
          EXPECT_EQ(trainer.arena().peaks(), flight.memory[rank].categories()) << rank;
        }
        const Trace phantom =
            trace_phantom(config, flight, static_cast<int>(rank), flight.plans[rank]);
        EXPECT_EQ(first_difference(phantom, recorder.take()), "")
            << join(layout, " ") << " rank " << rank;
      });
    }
  }
};

TEST_F(ExpertsTest, DenseLayoutsComputeWhatOneRankDoes) {
  for (const Settings& layout : {Settings{"parallel.dp=2"}, Settings{"parallel.tp=2"},
                                 Settings{"parallel.shard=2", "parallel.zero=3"},
                                 context(2, "ring") + Settings{"parallel.tp=2"}})
    expect_right(layout + kLosses);
}

TEST_F(ExpertsTest, BalancedRoutersThatChooseByRankAreNotVerified) {
  const Settings layout = context(2, "ring") + Settings{"model.router=balanced", "model.seq=24"};
  EXPECT_ERROR(verify(layout), Config,
               "the 12 choices of a part must be a multiple of model.experts = 8");
}

// Experts over the dp ranks, over the tp ranks, over both, with replicas and without.
TEST_F(ExpertsTest, ExpertParallelComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.dp=4", "parallel.ep=4"}, Settings{"parallel.dp=8", "parallel.ep=8"},
        Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        context(2, "ring") + Settings{"parallel.ep=2"}})
    expect_right(layout + kLosses);
}

// The last exchange before them is under way: no operation up to them waits for it.
TEST_F(ExpertsTest, WeightGradientsAreComputedWhileGradientsOfInputsTravel) {
  for (const Settings& more :
       {Settings{}, Settings{"parallel.ep_node=2"}, Settings{"parallel.ep=2", "parallel.etp=2"}}) {
    const Config config = config_of(Settings{"parallel.dp=4", "parallel.ep=4"} + more);
    const Preflight flight = preflight(config, 0);
    const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
    uint32_t exchange = 0;
    int64_t products = 0;
    bool is_awaited = true;
    for (uint32_t i = 0; i < trace.ops.size(); ++i) {
      const TraceOp& op = trace.ops[i];
      const std::string_view name = op.name;
      if (trace.lane_of(op).kind == TraceLane::Kind::Collective && !op.is_control) {
        exchange = i;
        is_awaited = false;
      }
      is_awaited = is_awaited || std::ranges::count(trace.waits_of(op), exchange) > 0;
      if (name != "grouped_linear_backward_weight") continue;
      EXPECT_FALSE(is_awaited) << i << " " << join(more, " ");
      ++products;
    }
    EXPECT_GT(products, 0);
  }
}

TEST_F(ExpertsTest, FewerTokensThanExpertsAreNormal) {
  expect_right({"parallel.dp=2", "parallel.ep=2", "model.experts=64", "model.experts_per_token=1"});
  expect_right({"parallel.tp=2", "parallel.ep=2", "model.experts=16", "model.experts_per_token=3",
                "model.seq=10", "batch.micro=1"});
}

TEST_F(ExpertsTest, ExpertParallelWithZeroComputesWhatOneRankDoes) {
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    expect_right({"parallel.shard=4", "parallel.ep=2", zero});
    expect_right({"parallel.shard=2", "parallel.ep=2", zero});  // one replica: nothing to shard
    expect_right({"parallel.shard=2", "parallel.dp=2", "parallel.ep=2", zero});
  }
}

TEST_F(ExpertsTest, ExpertParallelWithPipelinesComputesWhatOneRankDoes) {
  for (const char* schedule : {"1f1b", "zb-v", "dualpipe", "dualpipe-v"})
    for (const Settings& more :
         {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=2"}})
      expect_right(Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4",
                            "parallel.ep=2", concat("parallel.schedule=", schedule)} +
                   more);
}

TEST_F(ExpertsTest, RecomputationAndRoutersKeepTheResult) {
  for (const char* router : {"softmax-after", "softmax-before", "balanced"})
    expect_right({"parallel.dp=2", "parallel.ep=2", concat("model.router=", router)});
  expect_right({"parallel.dp=2", "parallel.ep=2", "memory.recompute=full"});
}

// Forward has the bits of one rank, and so has every gradient but those of experts.
TEST_F(ExpertsTest, OnlyTheGradientsOfExpertsAreAddedInAnotherOrder) {
  const VerifyReport report = verify({"parallel.dp=2", "parallel.ep=2", "batch.accumulation=1"});
  EXPECT_EQ(report.loss_max_rel, 0);
  for (const TensorVerdict& tensor : report.tensors)
    if (tensor.name.find(".experts.") == std::string::npos) {
      EXPECT_EQ(tensor.grad_max_rel, 0) << tensor.name;
    }
}

TEST_F(ExpertsTest, NarrowTypesComputeWhatOneRankDoes) {
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify({"parallel.dp=2", "parallel.ep=2", compute}).verdict, Verdict::Bug) << compute;
}

TEST_F(ExpertsTest, MistakesAreFoundAndNamed) {
  const Settings layout = {"parallel.dp=4", "parallel.ep=2"};
  const auto wrong = [&](const std::string& fault) {
    return wrong_tensors(layout + Settings{"fault.inject=" + fault});
  };
  const std::vector<std::string> scaled = wrong("mean_over_edp");
  EXPECT_EQ(scaled,
            (std::vector<std::string>{
                "layers.0.moe.experts.gate_up.weight", "layers.0.moe.experts.down.weight",
                "layers.1.moe.experts.gate_up.weight", "layers.1.moe.experts.down.weight"}));
  for (const char* fault : {"swapped_expert:rank=1", "lost_token:rank=2"}) {
    const std::vector<std::string> named = wrong(fault);
    for (const char* layer : {"layers.0.moe.", "layers.1.moe."})
      for (const char* tensor : {"experts.gate_up.weight", "experts.down.weight"})
        EXPECT_EQ(std::ranges::count(named, concat(layer, tensor)), 1)
            << fault << ": " << join(named, " ");
  }
  const std::vector<std::string> cut = wrong("cut_router");
  EXPECT_TRUE(std::ranges::count(cut, "layers.0.moe.router.weight") == 1);
  EXPECT_TRUE(std::ranges::count(cut, "layers.1.moe.experts.down.weight") == 0);
}

// k T h (e - 1) / e of each rank and direction under balanced routing: two forward and two backward
// in each of 2 layers and 2 micro-batches.
TEST_F(ExpertsTest, BalancedRoutingSendsWhatTheFormulaSays) {
  for (const int ep : {2, 4}) {
    const Settings layout = {concat("parallel.dp=", ep), concat("parallel.ep=", ep),
                             "model.router=balanced"};
    const int64_t tokens = 2 * 16, hidden = 32;
    const int64_t each = 2 * tokens * hidden * (ep - 1) / ep;
    EXPECT_EQ(elements_sent(layout, {Operation::AllToAll}), ep * each * 4 * 2 * 2) << ep;
  }
}

// What a step routes is in its record: every token chooses two experts in every layer.
TEST_F(ExpertsTest, TheRecordOfAStepCountsTheTokensOfEachExpert) {
  for (const Settings& layout :
       {Settings{}, Settings{"parallel.dp=2", "parallel.ep=2", "batch.accumulation=1"},
        Settings{"parallel.tp=2", "parallel.ep=2"}, Settings{"parallel.pp=2"}}) {
    std::mutex mutex;
    std::vector<RoutingRecord> records;
    on_ranks(config_of(layout), [&](Trainer& trainer, const MemoryEstimate&) {
      const StepRecord record = trainer.train_step();
      const std::lock_guard lock(mutex);
      records.push_back(record.routing.value());
    });
    for (const RoutingRecord& record : records) {
      ASSERT_EQ(record.expert_tokens.size(), 2u);
      for (const std::vector<int64_t>& layer : record.expert_tokens) {
        int64_t sum = 0;
        for (const int64_t tokens : layer) sum += tokens;
        EXPECT_EQ(sum, 4 * 16 * 2);
      }
      EXPECT_EQ(record.expert_tokens, records[0].expert_tokens);
      EXPECT_GE(record.imbalance(), 1);
      EXPECT_NEAR(record.balance_loss, 1, 0.5);
    }
  }
}

TEST_F(ExpertsTest, CheckpointsGoOnInAnyLayout) {
  const Settings model = {"batch.accumulation=4"}, four = {"batch.accumulation=1"};
  const Settings alone,
      split = four + Settings{"parallel.dp=4", "parallel.ep=4"},
      zero = four + Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
      piped = {"parallel.pp=2", "parallel.tp=2", "parallel.ep=2"};
  const double wanted = loss_over(model, {alone});
  for (const std::vector<Settings>& layouts :
       {std::vector<Settings>{split, alone}, {zero, split}, {alone, zero}, {piped, zero}})
    EXPECT_NEAR(loss_over(model, layouts), wanted, 1e-5 * wanted);
}

// With balanced routing the phantom's counts are those of the run: memory, operations and messages.
TEST_F(ExpertsTest, BalancedRunsDoWhatThePhantomDid) {
  expect_what_the_phantom_did({});
}

TEST_F(ExpertsTest, OnCudaBalancedRunsDoWhatThePhantomDid) {
  SXT_NEEDS_GPU();
  expect_what_the_phantom_did(kCuda);
}

// Memory does not depend on where the tokens go, up to the capacity.
TEST_F(ExpertsTest, MemoryIsThePredictedOneWhateverTheRouting) {
  expect_predicted_memory({"parallel.dp=2", "parallel.ep=2"});
  expect_predicted_memory({"parallel.dp=4", "parallel.ep=4", "memory.experts=3"});
}

TEST_F(ExpertsTest, TheCapacityIsTheWorstCaseIfItFitsElseTwiceTheBalancedRows) {
  const Settings layout = {"parallel.dp=4", "parallel.ep=4", "model.expert_ffn=400"};
  const Preflight free = preflight(config_of(layout), 0);
  EXPECT_EQ(free.expert_capacity, 0);
  ASSERT_TRUE(free.expert_memory);
  EXPECT_GT(free.expert_memory->worst, free.expert_memory->balanced);
  const auto limit = [&](int64_t bytes) {
    return Settings{"run.memory_limit=" + std::to_string(bytes)};
  };
  EXPECT_EQ(preflight(config_of(layout + limit(free.expert_memory->worst)), 0).expert_capacity, 0);
  EXPECT_EQ(preflight(config_of(layout + limit(free.expert_memory->worst - 1)), 0).expert_capacity,
            2);
  EXPECT_EQ(preflight(config_of(layout + Settings{"memory.experts=1.5"}), 0).expert_capacity, 1.5);
}

TEST_F(ExpertsTest, MoreTokensThanTheCapacityEndTheRun) {
  EXPECT_ERROR(on_ranks(config_of({"parallel.dp=4", "parallel.ep=4", "memory.experts=1"}),
                        [](Trainer& trainer, const MemoryEstimate&) { trainer.train_step(); }),
               Memory, "rows for experts");
}

// Mean imbalance of the last ten of 40 steps, without and with the loss.
TEST_F(ExpertsTest, TheBalanceLossBalances) {
  const auto imbalance = [&](const Settings& more) {
    double sum = 0;
    on_ranks(config_of(Settings{"train.steps=40", "optim.lr=0.003", "batch.micro=16"} + more),
             [&](Trainer& trainer, const MemoryEstimate&) {
               for (int step = 0; step < 40; ++step) {
                 const double now = trainer.train_step().routing.value().imbalance();
                 if (step >= 30) sum += now / 10;
               }
             });
    return sum;
  };
  const double without = imbalance({}), with = imbalance({"train.balance_loss=0.1"});
  EXPECT_LT(with, 0.75 * without);
}

// The counts are read to the host once per layer and micro-batch, for all four exchanges.
TEST_F(ExpertsTest, AStepReadsTheCountsOncePerLayerAndMicroBatch) {
  const auto reads = [&](const Settings& layout) {
    const Config config = config_of(layout);
    const Preflight flight = preflight(config, 0);
    const Trace trace = trace_phantom(config, flight, 0, flight.plans[0]);
    return std::ranges::count_if(
        trace.ops, [](const TraceOp& op) { return op.name == std::string_view("copy_to_host"); });
  };
  const Settings two = {"parallel.dp=2"};
  // The phantom makes two steps, of two layers and two micro-batches.
  EXPECT_EQ(reads(two + Settings{"parallel.ep=2"}) - reads(two), 2 * 2 * 2);
}

class CudaExperts : public ExpertsTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
};

// A choice between two logits that are as close as rounding may differ; balanced routing has none.
TEST_F(CudaExperts, OneRankFollowsTheCpu) {
  for (const char* router : {"softmax-after", "softmax-before", "balanced"}) {
    const Settings steps =
        kLosses + Settings{"train.steps=20", "optim.lr=1e-3", concat("model.router=", router)};
    const std::vector<double> cpu = losses_of(steps, 20), gpu = losses_of(steps + kCuda, 20);
    ASSERT_EQ(gpu.size(), cpu.size());
    const double tolerance = std::string(router) == "balanced" ? 1e-4 : 1e-3;
    for (size_t i = 0; i < cpu.size(); ++i)
      EXPECT_NEAR(gpu[i], cpu[i], tolerance * cpu[i]) << router << ", step " << i + 1;
  }
}

TEST_F(CudaExperts, ExpertParallelComputesWhatOneRankDoes) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2", "parallel.ep=2"}, Settings{"parallel.dp=4", "parallel.ep=2"},
        Settings{"parallel.dp=4", "parallel.ep=4"}, Settings{"parallel.dp=8", "parallel.ep=8"},
        Settings{"parallel.tp=2", "parallel.ep=2"},
        Settings{"parallel.shard=4", "parallel.zero=3", "parallel.ep=2"},
        Settings{"parallel.dp=2", "parallel.ep=2", "memory.recompute=full"},
        Settings{"parallel.pp=2", "parallel.dp=2", "parallel.ep=2", "parallel.schedule=1f1b"}})
    expect_right(layout + kLosses + kCuda);
  expect_right(
      Settings{"parallel.dp=2", "parallel.ep=2", "model.experts=64", "model.experts_per_token=1"} +
      kCuda);
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    EXPECT_NE(verify(Settings{"parallel.dp=2", "parallel.ep=2", compute} + kCuda).verdict,
              Verdict::Bug)
        << compute;
}

TEST_F(CudaExperts, HasTheSameBitsOnEveryRunAndThePredictedMemory) {
  for (const Settings& layout : {Settings{}, Settings{"parallel.dp=2", "parallel.ep=2"},
                                 Settings{"parallel.tp=2", "parallel.ep=2"}}) {
    EXPECT_EQ(losses_of(layout + kLosses + kCuda, 4), losses_of(layout + kLosses + kCuda, 4))
        << join(layout, " ");
    expect_predicted_memory(layout + kCuda);
  }
}

// One wait at the end of a step; with ep one more per layer and micro-batch, for the counts.
TEST_F(CudaExperts, AStepWaitsForTheDeviceOnlyForTheCounts) {
  for (const bool is_split : {false, true})
    on_ranks(
        config_of((is_split ? Settings{"parallel.dp=2", "parallel.ep=2"} : Settings{}) + kCuda),
        [&](Trainer& trainer, const MemoryEstimate&) {
          for (int step = 0; step < 2; ++step) trainer.train_step();
          const int64_t waits = trainer.stream().queue().waits();
          trainer.train_step();
          EXPECT_EQ(trainer.stream().queue().waits() - waits, is_split ? 1 + 2 * 2 : 1);
        });
}

TEST_F(CudaExperts, MoreTokensThanTheCapacityEndTheRun) {
  EXPECT_ERROR(
      on_ranks(config_of(kCuda + Settings{"parallel.dp=4", "parallel.ep=4", "memory.experts=1"}),
               [](Trainer& trainer, const MemoryEstimate&) { trainer.train_step(); }),
      Memory, "rows for experts");
}

TEST_F(CudaExperts, MistakesAreFound) {
  for (const char* fault : {"mean_over_edp", "swapped_expert:rank=1", "lost_token:rank=2"})
    EXPECT_FALSE(
        wrong_tensors(Settings{"parallel.dp=4", "parallel.ep=2", concat("fault.inject=", fault)} +
                      kCuda)
            .empty())
        << fault;
}

TEST_F(ExpertsTest, LayoutsThatCannotRunAreRefused) {
  EXPECT_ERROR(config_of({"parallel.dp=2", "parallel.ep=4"}), Config,
               "parallel.ep = 4 does not divide the 2 ranks of a pipeline stage");
  EXPECT_ERROR(config_of({"parallel.dp=3", "parallel.ep=3"}), Config,
               "parallel.ep = 3 does not divide model.experts = 8: parallel.ep = 1 works");
  EXPECT_ERROR(config_of({"parallel.tp=2", "parallel.sequence=false"}), Config,
               "sequence = true works");
  EXPECT_ERROR(config_of({"model.experts_per_token=9"}), Config,
               "model.experts_per_token = 9 of model.experts = 8");
}

}  // namespace
}  // namespace sextant

// Hierarchical all-to-all of experts in whole runs: what the flat one computes, with less traffic
// between nodes.
#include <mutex>

#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "trace/compare.h"
#include "train/phantom.h"

namespace sextant {
namespace {

const Settings kManyExperts = {"model.family=mixtral", "model.kv_heads=4",
                               "model.experts=16",     "model.experts_per_token=4",
                               "model.expert_ffn=12",  "run.threads=1"};
Settings nodes_of(int ranks) {
  return {concat("parallel.ep_node=", ranks)};
}

class ExpertNodesTest : public LayoutTest {
 protected:
  ExpertNodesTest() : LayoutTest(kManyExperts) {}

  TrafficTable sent_by_all(const Settings& settings) {
    std::mutex mutex;
    TrafficTable sum;
    on_ranks(config_of(settings), [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      const std::lock_guard lock(mutex);
      sum.add(trainer.mesh().world().ledger().traffic, 1);
    });
    return sum;
  }
};

TEST_F(ExpertNodesTest, NodesComputeWhatOneRankDoes) {
  const Settings four = {"parallel.dp=4", "parallel.ep=4"},
                 eight = {"parallel.dp=8", "parallel.ep=8"};
  for (const Settings& layout :
       {four + nodes_of(2), eight + nodes_of(2), eight + nodes_of(4),
        four + nodes_of(2) + Settings{"train.capacity_factor=1"},
        four + nodes_of(2) + Settings{"model.shared_experts=2", "model.router=sigmoid"},
        four + nodes_of(2) + Settings{"memory.recompute=full"},
        four + nodes_of(2) + Settings{"memory.recompute=cheap", "train.balance_loss=0.1"},
        nodes_of(2) + Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"},
        nodes_of(2) + Settings{"parallel.shard=8", "parallel.zero=3", "parallel.ep=4"},
        context(2, "ring") + nodes_of(2) + Settings{"parallel.dp=2", "parallel.ep=4"},
        four + nodes_of(2) +
            Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4",
                     "parallel.schedule=dualpipe"}})
    expect_right(layout);
  EXPECT_NE(verify(four + nodes_of(2) + Settings{"precision.compute=bf16"}).verdict, Verdict::Bug);
}

// The outputs of a token's experts are added in each node first, so layouts with the same nodes
// have the same bits, and those without differ by rounding.
TEST_F(ExpertNodesTest, LossesDependOnTheNumberOfNodes) {
  const Settings flat = {"parallel.dp=4", "parallel.ep=4"};
  const std::vector<double> one = losses_of(flat, 2), two = losses_of(flat + nodes_of(2), 2);
  EXPECT_NE(two, one);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-6);
  EXPECT_EQ(
      losses_of({"parallel.shard=4", "parallel.zero=1", "parallel.ep=4", "parallel.ep_node=2"}, 2),
      two);
  EXPECT_EQ(verify(flat + nodes_of(2), "dp=4,ep=4").verdict, Verdict::Rounding);
  EXPECT_EQ(
      verify(Settings{"parallel.shard=4", "parallel.ep=4"} + nodes_of(2), "dp=4,ep=4,ep_node=2")
          .verdict,
      Verdict::Equal);
}

// Every token has four of 16 experts. With balanced routing those of a token are on one rank, so a
// quarter as much crosses between nodes, there and back.
TEST_F(ExpertNodesTest, TokensCrossOnceAndTrafficIsCountedByLevel) {
  const Settings layout = {"parallel.dp=4", "parallel.ep=4", "model.router=balanced"};
  const TrafficTable flat = sent_by_all(layout), nodes = sent_by_all(layout + nodes_of(2));
  constexpr auto kExchange = Operation::AllToAll;
  const int64_t tokens = 4 * 2 * 16, hidden = 32, chosen = 4, layers = 2, micros = 2;
  const int64_t half = tokens / 2 * layers * micros;  // tokens whose experts are on the other node
  // There and back, forward and backward. The choices and the gates go with the tokens, the
  // gradients of gates come back.
  EXPECT_EQ(nodes.of("ep_between", kExchange).elements, half * (4 * hidden + 3 * chosen));
  EXPECT_EQ(nodes.of("ep_between", kExchange).bytes, half * (4 * hidden + 3 * chosen) * 4);
  EXPECT_EQ(nodes.of("ep_inside", kExchange).elements, half * 4 * chosen * hidden);
  EXPECT_EQ(nodes.of("ep", kExchange).elements, 0);
  EXPECT_EQ(flat.of("ep", kExchange).elements, half * 3 / 2 * 4 * chosen * hidden);
}

TEST_F(ExpertNodesTest, BalancedRunsDoWhatThePhantomDid) {
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=4"},
        Settings{"parallel.dp=4", "parallel.ep=4", "memory.experts=1", "model.shared_experts=1"},
        Settings{"parallel.shard=4", "parallel.zero=2", "parallel.ep=4", "memory.recompute=full",
                 "model.experts_per_token=3"}}) {
    const Config config = config_of(layout + nodes_of(2) + Settings{"model.router=balanced"});
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

TEST_F(ExpertNodesTest, MemoryIsThePredictedOneWhateverTheRouting) {
  const Settings layout = Settings{"parallel.dp=4", "parallel.ep=4"} + nodes_of(2);
  expect_predicted_memory(layout);
  expect_predicted_memory(layout + Settings{"memory.experts=3"});
}

// 22 and 26 choices of 16 experts.
TEST_F(ExpertNodesTest, ChoicesNeedNotDivideByTheExperts) {
  const Settings layout = Settings{"parallel.dp=4", "parallel.ep=4", "batch.micro=1",
                                   "batch.accumulation=2", "model.experts_per_token=2"} +
                          nodes_of(2);
  for (const char* seq : {"model.seq=11", "model.seq=13"}) {
    expect_right(layout + Settings{seq});
    expect_predicted_memory(layout + Settings{seq});
    expect_predicted_memory(layout + Settings{seq, "memory.experts=3"});
  }
}

TEST_F(ExpertNodesTest, LostTokensAreFound) {
  EXPECT_FALSE(wrong_tensors(Settings{"parallel.dp=4", "parallel.ep=4", "parallel.ep_node=2",
                                      "fault.inject=lost_token:rank=2"})
                   .empty());
}

TEST_F(ExpertNodesTest, NodesThatCannotBeAreRefused) {
  const Settings layout = {"parallel.dp=4", "parallel.ep=4"};
  for (const int node : {3, 4, 8})
    EXPECT_ERROR(config_of(layout + nodes_of(node)), Config, "it must divide ep into two nodes");
  EXPECT_ERROR(
      config_of(nodes_of(2) + Settings{"parallel.dp=8", "parallel.ep=4", "parallel.etp=2"}), Config,
      "parallel.ep_node = 2 with parallel.etp = 2: one of them must be 1");
}

class CudaExpertNodes : public ExpertNodesTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
  const Settings cuda_ = {"run.device=cuda"};
};

TEST_F(CudaExpertNodes, NodesComputeWhatOneRankDoes) {
  const Settings four = Settings{"parallel.dp=4", "parallel.ep=4"} + nodes_of(2) + cuda_;
  for (const Settings& layout :
       {four, four + Settings{"train.capacity_factor=1"},
        four + Settings{"model.shared_experts=2", "model.router=sigmoid"},
        four + Settings{"memory.recompute=full", "train.balance_loss=0.1"},
        cuda_ + nodes_of(4) + Settings{"parallel.dp=8", "parallel.ep=8"},
        cuda_ + nodes_of(2) + Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"}})
    expect_right(layout);
  EXPECT_NE(verify(four + Settings{"precision.compute=bf16"}).verdict, Verdict::Bug);
  expect_predicted_memory(four);
}

TEST_F(CudaExpertNodes, LayoutsWithTheSameNodesHaveTheSameBits) {
  const Settings four = Settings{"parallel.ep=4"} + nodes_of(2) + cuda_;
  for (const Settings& model :
       {Settings{}, Settings{"precision.compute=bf16", "run.cudnn_backward=false",
                             "model.shared_experts=1", "train.capacity_factor=1.25"}})
    EXPECT_EQ(losses_of(four + model + Settings{"parallel.shard=4", "parallel.zero=1"}, 3),
              losses_of(four + model + Settings{"parallel.dp=4"}, 3))
        << join(model, " ");
}

// One wait at the end of a step and one per layer and micro-batch, for both kinds of counts.
TEST_F(CudaExpertNodes, AStepWaitsForTheDeviceOnlyForTheCounts) {
  on_ranks(config_of(cuda_ + nodes_of(2) + Settings{"parallel.dp=4", "parallel.ep=4"}),
           [](Trainer& trainer, const MemoryEstimate&) {
             for (int step = 0; step < 2; ++step) trainer.train_step();
             const int64_t waits = trainer.stream().queue().waits();
             trainer.train_step();
             EXPECT_EQ(trainer.stream().queue().waits() - waits, 1 + 2 * 2);
           });
}

TEST_F(CudaExpertNodes, LostTokensAreFound) {
  EXPECT_FALSE(
      wrong_tensors(cuda_ + Settings{"parallel.dp=4", "parallel.ep=4", "parallel.ep_node=2",
                                     "fault.inject=lost_token:rank=2"})
          .empty());
}

}  // namespace
}  // namespace sextant

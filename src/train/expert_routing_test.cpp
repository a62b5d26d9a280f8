// What learned routing sends, extreme routing, and where experts lie, in whole runs.
#include <map>
#include <mutex>

#include "support/layouts.h"
#include "tensor/copy.h"
#include "train/phantom.h"

namespace sextant {
namespace {

constexpr int64_t kExperts = 8, kHidden = 32;

class ExpertRoutingTest : public LayoutTest {
 protected:
  ExpertRoutingTest()
      : LayoutTest({"model.family=mixtral", "model.kv_heads=4", "model.experts=8",
                    "model.experts_per_token=2", "model.expert_ffn=12", "run.threads=1"}) {}

  // Choices of a rank in a step, by layer and expert.
  using Rows = std::vector<std::vector<int64_t>>;
  static Rows rows_of(Trainer& trainer) {
    const std::span<const double> sums = trainer.executor().routing();
    const auto experts = static_cast<size_t>(kExperts);
    Rows rows;
    for (size_t at = 0; at < sums.size(); at += 3 + experts)
      rows.emplace_back(sums.begin() + static_cast<int64_t>(at) + 2,
                        sums.begin() + static_cast<int64_t>(at + 2 + experts));
    return rows;
  }
};

// Forward, a rank sends its rows for the experts of others, and theirs back; the same backward.
TEST_F(ExpertRoutingTest, BytesAndCallsOfEachRankAreWhatItsRoutingSays) {
  constexpr int kRanks = 4;
  constexpr int64_t kUses = 2 * 2;  // layers x micro-batches
  for (const auto& [compute, width] : {std::pair{"fp32", 4}, {"bf16", 2}}) {
    std::mutex mutex;
    std::vector<Rows> rows(kRanks);
    std::vector<TrafficTable> sent(kRanks);
    std::vector<std::vector<int64_t>> recorded;
    on_ranks(config_of({"parallel.dp=4", "parallel.ep=4", concat("precision.compute=", compute)}),
             [&](Trainer& trainer, const MemoryEstimate&) {
               const StepRecord record = trainer.train_step();
               const auto rank = static_cast<size_t>(trainer.mesh().world().rank());
               const std::lock_guard lock(mutex);
               rows[rank] = rows_of(trainer);
               sent[rank] = record.sent;
               recorded = record.routing.value().expert_tokens;
             });
    Rows sum(recorded.size(), std::vector<int64_t>(kExperts));
    int64_t different = 0;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      int64_t out = 0, in = 0;
      for (size_t layer = 0; layer < sum.size(); ++layer)
        for (size_t expert = 0; expert < kExperts; ++expert) {
          sum[layer][expert] += rows[rank][layer][expert];
          const size_t owner = expert / (kExperts / kRanks);
          if (owner != rank) out += rows[rank][layer][expert];
          for (size_t other = 0; other < kRanks && owner == rank; ++other)
            if (other != rank) in += rows[other][layer][expert];
        }
      const Traffic exchanged = sent[rank].of("ep", Operation::AllToAll);
      EXPECT_EQ(exchanged.calls, 4 * kUses) << compute;
      EXPECT_EQ(exchanged.bytes, 2 * (out + in) * kHidden * width) << compute << " rank " << rank;
      const Traffic counted = sent[rank].of("ep", Operation::AllGather);
      EXPECT_EQ(counted.calls, kUses);
      EXPECT_EQ(counted.elements, kUses * (kRanks - 1) * kExperts);
      different += out == in ? 0 : 1;
    }
    EXPECT_EQ(sum, recorded) << compute;
    EXPECT_GT(different, 0);  // the routing is not balanced
  }
}

// By layer, micro-batch and pass, in the trace of a run.
TEST_F(ExpertRoutingTest, EveryLayerExchangesTwiceForwardAndTwiceBackward) {
  const Config config = config_of({"parallel.dp=2", "parallel.ep=2"});
  const Preflight flight = preflight(config, 0);
  const Loader data = Loader::open(
      disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
  run_world(config, clock_, nullptr, [&](Communicator& world) {
    TraceRecorder recorder;
    TrainerOptions options;
    options.recorder = &recorder;
    Mesh mesh(world, mesh_shape(config.parallel));
    {
      Trainer trainer(config, flight, mesh, data, disk_, clock_, options);
      trainer.train_step();
    }
    const Trace trace = recorder.take();
    std::map<std::tuple<int, int, std::string>, int> exchanges;
    for (const TraceOp& op : trace.ops)
      if (op.name == std::string_view("all_to_all"))
        ++exchanges[{op.scope.layer, op.scope.micro, op.scope.pass}];
    std::map<std::tuple<int, int, std::string>, int> wanted;
    for (const int layer : {2, 4})  // after the embedding, each behind an attention layer
      for (const int micro : {0, 1})
        for (const char* pass : {"forward", "backward"}) wanted[{layer, micro, pass}] = 2;
    EXPECT_EQ(exchanges, wanted);
  });
}

// Every token of the batch has the same one or two experts, so that most experts, and ranks, have
// none.
const Settings kOneForAll = {"model.router=sigmoid",     "model.router_bias_std=100",
                             "optim.router_bias_rate=0", "optim.lr=0.01",
                             "optim.warmup=0",           "model.router_normalize=false"};

TEST_F(ExpertRoutingTest, AllTokensOnOneExpertTrainAndAreRight) {
  for (const Settings& more :
       {Settings{"parallel.dp=4", "parallel.ep=4"},
        Settings{"parallel.dp=4", "parallel.ep=4", "parallel.ep_node=2"},
        Settings{"parallel.dp=4", "parallel.ep=2", "parallel.etp=2"},
        Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4", "memory.recompute=full"}}) {
    const Settings layout = kOneForAll + Settings{"model.experts_per_token=1"} + more;
    expect_right(layout);
    std::vector<double> losses;
    std::vector<int64_t> tokens;
    on_ranks(config_of(layout + Settings{"train.steps=10"}),
             [&](Trainer& trainer, const MemoryEstimate&) {
               for (int step = 0; step < 10; ++step) {
                 const StepRecord record = trainer.train_step();
                 if (trainer.mesh().world().rank() > 0) continue;
                 losses.push_back(record.loss);
                 tokens = record.routing.value().expert_tokens.at(0);
                 EXPECT_EQ(record.routing->imbalance(), kExperts);
               }
             });
    EXPECT_EQ(std::ranges::count(tokens, 0), kExperts - 1) << join(layout, " ");
    EXPECT_LT(losses.back(), losses.front()) << join(layout, " ");
  }
}

// Ranks 0 to 3 have two experts each, and no other rank has a part of them.
TEST_F(ExpertRoutingTest, EightExpertsOnFourRanksLieInPairs) {
  for (const Settings& layout : {Settings{"parallel.dp=4", "parallel.ep=4"},
                                 Settings{"parallel.tp=2", "parallel.dp=2", "parallel.ep=4"}}) {
    std::mutex mutex;
    std::map<int, std::vector<int64_t>> experts;
    on_ranks(config_of(layout), [&](Trainer& trainer, const MemoryEstimate&) {
      std::vector<int64_t> own;
      for (const Param& param : trainer.params().params()) {
        if (param.name != "layers.1.moe.experts.down.weight") continue;
        for (const Range& rows : param.fragment.rows)
          for (int64_t row = rows.begin; row < rows.end; row += kHidden)
            own.push_back(row / kHidden);
        EXPECT_EQ(param.fragment.elements(), 2 * kHidden * 12);
      }
      const std::lock_guard lock(mutex);
      experts[trainer.mesh().world().rank()] = own;
    });
    EXPECT_EQ(experts, (std::map<int, std::vector<int64_t>>{
                           {0, {0, 1}}, {1, {2, 3}}, {2, {4, 5}}, {3, {6, 7}}}));
  }
}

// With edp = 1 the tokens of an expert are summed in one product, in their global order: as a rank
// does that takes all of them as one micro-batch. So one step of SGD leaves the same weights.
TEST_F(ExpertRoutingTest, ExpertsWithoutReplicasHaveTheBitsOfOneProduct) {
  const Settings step = {"batch.accumulation=1", "optim.name=sgd", "optim.clip=0",
                         "optim.lr=0.5",         "optim.warmup=0", "optim.weight_decay=0"};
  const auto trained = [&](const Settings& layout) {
    std::mutex mutex;
    std::map<std::string, std::vector<float>> weights;
    on_ranks(config_of(step + layout), [&](Trainer& trainer, const MemoryEstimate&) {
      trainer.train_step();
      trainer.params().await_weights();
      for (const Param& param : trainer.params().params()) {
        std::vector<float> own(static_cast<size_t>(param.value.elements()));
        copy_floats_to_host(trainer.stream(), own, param.value);
        const std::lock_guard lock(mutex);
        std::vector<float>& whole = weights[param.name];
        whole.resize(static_cast<size_t>(param.whole[0]) * own.size() /
                     static_cast<size_t>(param.shape[0]));
        param.fragment.for_each_run(
            {0, static_cast<int64_t>(own.size())}, [&](const Range& run, int64_t first) {
              std::copy(own.begin() + run.begin, own.begin() + run.end, whole.begin() + first);
            });
      }
    });
    return weights;
  };
  const auto one = trained({"batch.micro=4"}),
             initial = trained({"batch.micro=4", "optim.lr=1e-30"});
  for (const Settings& layout :
       {Settings{"parallel.dp=4", "parallel.ep=4"},
        Settings{"parallel.dp=2", "parallel.ep=2", "batch.micro=2"},
        Settings{"parallel.shard=4", "parallel.zero=1", "parallel.ep=4"}}) {
    const auto many = trained(Settings{"batch.micro=1"} + layout);
    for (const char* layer : {"layers.0.moe.experts.", "layers.1.moe.experts."})
      for (const char* name : {"gate_up.weight", "down.weight"}) {
        const std::string param = concat(layer, name);
        EXPECT_TRUE(many.at(param) == one.at(param)) << param << " " << join(layout, " ");
        EXPECT_FALSE(many.at(param) == initial.at(param)) << param;
      }
  }
}

// Layouts whose experts have no replicas sum the same tokens in the same product.
TEST_F(ExpertRoutingTest, ShardsAndReplicasOfTheRestDoNotChangeExpertsWithoutReplicas) {
  const Settings one = {"model.tied=false", "batch.accumulation=1", "parallel.ep=4"};
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"})
    EXPECT_EQ(verify(one + Settings{"parallel.shard=4", zero}, "dp=4,ep=4").verdict, Verdict::Equal)
        << zero;
}

}  // namespace
}  // namespace sextant

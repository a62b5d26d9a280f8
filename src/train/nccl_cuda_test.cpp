// Training over NCCL: steps as graphs with the calls inside, and verify. The ranks are threads that
// share one GPU; graphs are recorded where calls are ordered by events, as on GPUs of their own.
#include "comm/nccl_world.h"

#include <gtest/gtest.h>

#include "support/layouts.h"
#include "support/nccl_ranks.h"

namespace sextant {
namespace {

const Settings kOverNccl = {"run.device=cuda", "run.transport=nccl", "fault.deadline=60"};

class CudaNcclTraining : public LayoutTest {
 protected:
  CudaNcclTraining() : LayoutTest({"train.steps=7", "optim.warmup=5"}) {}
  void SetUp() override { SXT_NEEDS_NCCL(); }

  struct Outcome {
    std::vector<double> losses, norms;
    TrafficTable sent;  // of the last step of rank 0
    bool has_graph = false;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  // Seven steps with calls in this order, and an evaluation behind the fifth where there are any.
  Outcome train(const Settings& settings, CallOrder order) {
    const Config config = config_of(settings + kOverNccl);
    const Preflight flight = preflight(config, 0);
    const Loader data = Loader::open(
        disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
    Outcome out;
    run_nccl_ranks(world_size(config.parallel),
                   [&](Communicator& world) {
                     Mesh mesh(world, mesh_shape(config.parallel));
                     Trainer trainer(config, flight, mesh, data, disk_, clock_);
                     for (int step = 0; step < 7; ++step) {
                       const StepRecord record = trainer.train_step();
                       if (step == 4 && config.train.eval_every > 0) trainer.evaluate();
                       if (world.rank() != 0) continue;
                       out.losses.push_back(record.loss);
                       out.norms.push_back(record.grad_norm);
                       out.sent = record.sent;
                     }
                     if (world.rank() == 0) out.has_graph = trainer.has_graph();
                   },
                   {.timeout_s = 60, .order = order});
    return out;
  }
};

TEST_F(CudaNcclTraining, AStepThatIsRecordedHasTheBitsAndTheTrafficOfOneThatIsIssued) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.dp=2", "train.eval_every=5"}, shared_by(2),
        shared_by(2) + kOwn, context(2, "ring"), context(2, "allgather"), Settings{"parallel.pp=2"},
        Settings{"parallel.pp=2", "parallel.schedule=zb-h1"},
        Settings{"parallel.shard=2", "parallel.zero=3"},
        Settings{"parallel.dp=2", "precision.compute=bf16", "run.cudnn_backward=false"}}) {
    const Settings all = kGrouped + layout;
    const Outcome recorded = train(all, CallOrder::Device);
    Outcome issued = train(all + Settings{"run.graphs=false"}, CallOrder::Device);
    EXPECT_TRUE(recorded.has_graph) << join(layout, " ");
    EXPECT_FALSE(issued.has_graph);
    issued.has_graph = true;
    EXPECT_EQ(recorded.losses, issued.losses) << join(layout, " ");
    EXPECT_EQ(recorded.norms, issued.norms) << join(layout, " ");
    EXPECT_TRUE(recorded == issued) << join(layout, " ");
    EXPECT_GT(recorded.sent.total().bytes, 0);
  }
}

TEST_F(CudaNcclTraining, StepsAreIssuedWhereTheyWouldWait) {
  EXPECT_FALSE(train(kGrouped + Settings{"parallel.dp=2"}, CallOrder::Automatic).has_graph)
      << "ranks that share a GPU wait on the host";
  EXPECT_FALSE(train(kGrouped + Settings{"parallel.shard=2", "parallel.zero=1"}, CallOrder::Device)
                   .has_graph)
      << "weights are gathered beside the next step";
}

TEST_F(CudaNcclTraining, VerifyHoldsAndFindsABug) {
  for (const Settings& layout : {Settings{"parallel.dp=2"}, shared_by(2), Settings{"parallel.pp=2"},
                                 Settings{"parallel.shard=2", "parallel.zero=2"},
                                 Settings{"parallel.dp=2", "train.reductions=fast"}}) {
    const VerifyReport report = verify(kGrouped + layout + kOverNccl);
    EXPECT_NE(report.verdict, Verdict::Bug) << join(layout, " ") << join(report.problems, "\n");
    EXPECT_LT(report.grad_max_rel, 5e-6) << join(layout, " ");
  }
  EXPECT_EQ(verify(kGrouped + Settings{"parallel.dp=2", "fault.inject=mean_over_ranks"} + kOverNccl)
                .verdict,
            Verdict::Bug);
}

}  // namespace
}  // namespace sextant

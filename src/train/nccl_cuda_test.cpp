// Training over NCCL, and verify. The ranks are threads that share one GPU.
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

  // Of rank 0 after five steps.
  bool has_graph(const Settings& settings) {
    const Config config = config_of(settings + kOverNccl);
    const Preflight flight = preflight(config, 0);
    const Loader data = Loader::open(
        disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
    bool found = false;
    run_nccl_ranks(world_size(config.parallel),
                   [&](Communicator& world) {
                     Mesh mesh(world, mesh_shape(config.parallel));
                     Trainer trainer(config, flight, mesh, data, disk_, clock_);
                     for (int step = 0; step < 5; ++step) trainer.train_step();
                     if (world.rank() == 0) found = trainer.has_graph();
                   },
                   {.timeout_s = 60});
    return found;
  }
};

TEST_F(CudaNcclTraining, StepsOfSeveralRanksAreIssued) {
  EXPECT_FALSE(has_graph(kGrouped + Settings{"parallel.dp=2"}));
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

// Runs on a GPU, against the CPU, against one rank, and against what was predicted; and what is
// told where there is none.
#include "train/run_device.h"

#include <array>
#include <cmath>

#include "formats/chrome_trace.h"
#include "support/layouts.h"
#include "support/needs_gpu.h"
#include "tensor/gpu.h"
#include "train/phantom.h"
#include "train/step_tracer.h"

namespace sextant {
namespace {

const Settings kCuda = {"run.device=cuda"};

class RunDeviceTest : public LayoutTest {};

TEST_F(RunDeviceTest, ADryRunForAGpuNeedsNone) {
  const Settings experts = {"model.family=mixtral", "model.experts=4", "model.experts_per_token=2",
                            "model.expert_ffn=12"};
  for (const Settings& layout : {Settings{}, Settings{"parallel.shard=2", "parallel.zero=3"},
                                 experts + Settings{"parallel.dp=2", "parallel.ep=2"}}) {
    const Preflight cpu = forecast(config_of(kGrouped + layout), 0);
    const Preflight gpu = forecast(config_of(kGrouped + layout + kCuda), 0);
    ASSERT_EQ(gpu.memory.size(), cpu.memory.size());
    for (size_t rank = 0; rank < gpu.memory.size(); ++rank) {
      // The same tensors, but for the scratch memory.
      EXPECT_EQ(gpu.memory[rank].weights, cpu.memory[rank].weights);
      EXPECT_EQ(gpu.memory[rank].activations, cpu.memory[rank].activations);
      EXPECT_EQ(gpu.memory[rank].workspace - Stream::kCudaScratch - Stream::kFaultBytes,
                cpu.memory[rank].workspace - Stream::scratch_bytes(cpu.threads));
      const ArenaPlan& plan = *gpu.plans[rank];
      EXPECT_EQ(plan.resident % 256, 0);
      for (const ProgramPlan& program : plan.programs)
        for (const int64_t offset : program.offsets) ASSERT_EQ(offset % 256, 0);
    }
  }
  RunOptions options;
  options.dry_run = true;
  const RunResult result = run(resolve(kGrouped + kCuda), options);
  EXPECT_EQ(result.memory.at(0).reserved,
            forecast(config_of(kGrouped + kCuda), 0).memory[0].reserved);
}

TEST_F(RunDeviceTest, AnAbsentGpuIsOneLineAndNothingIsWritten) {
  if (gpu::why_unusable(0).empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_ERROR(run(resolve(kGrouped + kCuda)), Config, "run.device = cuda: ");
  EXPECT_FALSE(disk_.exists(dir_ / "out"));
  EXPECT_ERROR(verify(kGrouped + kCuda), Config, "run.device = cuda: ");
  EXPECT_EQ(memory_limit(config_of(kGrouped + kCuda)), 0);
  EXPECT_EQ(memory_limit(config_of(kGrouped + kCuda + Settings{"run.memory_limit=1000"})), 1000);
}

TEST_F(RunDeviceTest, ALimitHoldsForADryRunForAGpu) {
  const Settings small = {
      "run.memory_limit=100000000"};  // the scratch memory fits, and little else
  RunOptions options;
  options.dry_run = true;
  EXPECT_NO_THROW(run(resolve(kGrouped + kCuda + small), options));
  EXPECT_ERROR(run(resolve(kGrouped + kCuda + Settings{"run.memory_limit=60000000"}), options),
               Memory, "may use ");
}

TEST_F(RunDeviceTest, AFaultOfAGpuNeedsOne) {
  EXPECT_ERROR(forecast(config_of(kGrouped + Settings{"fault.inject=gpu_error:step=2"}), 0), Config,
               "fault.inject = gpu_error:step=2: needs run.device = cuda");
  RunOptions options;
  options.dry_run = true;
  EXPECT_NO_THROW(
      run(resolve(kGrouped + kCuda + Settings{"fault.inject=gpu_error:step=2,micro=0"}), options));
}

class CudaTraining : public LayoutTest {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
};

TEST_F(CudaTraining, OneRankFollowsTheCpuForTwentySteps) {
  for (const Settings& family : {kGpt, kGrouped, kNormed}) {
    const Settings steps = family + Settings{"train.steps=20", "optim.lr=1e-3"};
    const std::vector<double> cpu = losses_of(steps, 20), gpu = losses_of(steps + kCuda, 20);
    ASSERT_EQ(cpu.size(), 20U);
    ASSERT_EQ(gpu.size(), 20U);
    EXPECT_LT(cpu.back(), cpu.front());
    for (size_t i = 0; i < cpu.size(); ++i)
      EXPECT_NEAR(gpu[i], cpu[i], 1e-4 * cpu[i]) << join(family, " ") << ", step " << i + 1;
  }
}

TEST_F(CudaTraining, HasTheSameBitsOnEveryRun) {
  for (const Settings& layout :
       {Settings{}, Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=3"},
        shared_by(2), Settings{"parallel.pp=2", "parallel.schedule=1f1b"}}) {
    const Settings all = kGrouped + layout + kCuda;
    EXPECT_EQ(losses_of(all, 4), losses_of(all, 4)) << join(all, " ");
  }
  const Settings narrow =
      kGrouped + kCuda +
      Settings{"precision.compute=bf16", "model.seq=512", "run.cudnn_backward=false"};
  EXPECT_EQ(losses_of(narrow, 4), losses_of(narrow, 4));
}

TEST_F(CudaTraining, AStepWaitsForTheDeviceOnceAndAllocatesNothing) {
  for (const Settings& layout : {Settings{}, Settings{"parallel.shard=2", "parallel.zero=2"},
                                 shared_by(2), Settings{"parallel.pp=2"}})
    on_ranks(config_of(kGrouped + layout + kCuda), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 2; ++step) trainer.train_step();
      const int64_t waits = trainer.stream().queue().waits();
      const int64_t allocations = trainer.arena().allocations();
      for (int step = 0; step < 3; ++step) trainer.train_step();
      EXPECT_EQ(trainer.stream().queue().waits() - waits, 3) << join(layout, " ");
      EXPECT_EQ(trainer.arena().allocations(), allocations) << join(layout, " ");
    });
}

// A step from the third on is a graph. Batches, learning rates, masks and loss scales change.
TEST_F(CudaTraining, AStepThatIsRecordedHasTheBitsOfOneThatIsIssued) {
  const Settings changing = {"train.steps=7", "optim.warmup=5", "batch.global=4", "batch.micro=2"};
  for (const Settings& layout : {kGpt + Settings{"model.dropout=0.1"}, kGrouped,
                                 kGrouped + Settings{"precision.compute=bf16"},
                                 kGrouped + Settings{"precision.compute=fp16"},
                                 kNormed + Settings{"memory.recompute=full"}}) {
    const Settings all = layout + changing + kCuda;
    EXPECT_EQ(losses_of(all, 7), losses_of(all + Settings{"run.graphs=false"}, 7))
        << join(all, " ");
  }
  // An evaluation of one micro-batch between steps of two.
  const Settings evaluated =
      kGrouped + changing + kCuda + Settings{"train.eval_every=4", "train.eval_batches=1"};
  const auto losses_around = [&](const char* graphs) {
    std::vector<double> losses;
    on_ranks(config_of(evaluated + Settings{graphs}), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 7; ++step) {
        losses.push_back(trainer.train_step().loss);
        if (step == 3) losses.push_back(trainer.evaluate().loss);
      }
    });
    return losses;
  };
  EXPECT_EQ(losses_around("run.graphs=true"), losses_around("run.graphs=false"));
  on_ranks(config_of(kGrouped + changing + kCuda), [&](Trainer& trainer, const MemoryEstimate&) {
    for (int step = 0; step < 3; ++step) {
      EXPECT_FALSE(trainer.has_graph()) << step;
      trainer.train_step();
    }
    EXPECT_TRUE(trainer.has_graph());
  });
}

// Operations of one rank run one after another, each of them is timed, and all are in the step.
TEST_F(CudaTraining, TimesOfOperationsAddUpToLessThanTheStep) {
  for (const Settings& layout : {kGpt, kGrouped + Settings{"precision.compute=bf16"}})
    on_ranks(config_of(layout + kCuda), [&](Trainer& trainer, const MemoryEstimate&) {
      StepTracer tracer(trainer, clock_);
      for (int step = 0; step < 2; ++step) {
        const double before = clock_.now();
        const TimedTrace timed = tracer.trace([&] { trainer.train_step(); });
        const double after = clock_.now();
        ASSERT_EQ(timed.times.size(), timed.trace.ops.size());
        EXPECT_GT(timed.trace.ops.size(), 20U);
        double sum = 0, last = before;
        for (size_t i = 0; i < timed.times.size(); ++i) {
          if (timed.trace.ops[i].lane != Trace::kCompute) continue;
          const OpTime& time = timed.times[i];
          ASSERT_TRUE(time.is_known()) << timed.trace.ops[i].name;
          EXPECT_GE(time.begin, last - 1e-6) << timed.trace.ops[i].name;
          last = time.end;
          sum += time.seconds();
        }
        EXPECT_LE(last, after);
        EXPECT_GT(sum, 0);
        EXPECT_LE(sum, timed.step_s);
      }
    });
}

TEST_F(CudaTraining, ATimedStepHasTheBitsOfAnother) {
  std::vector<double> losses[2];
  for (const bool is_timed : {false, true})
    on_ranks(config_of(kGrouped + kCuda), [&](Trainer& trainer, const MemoryEstimate&) {
      for (int step = 0; step < 4; ++step) {
        const auto make_step = [&] { losses[is_timed].push_back(trainer.train_step().loss); };
        if (is_timed)
          StepTracer(trainer, clock_).trace(make_step);
        else
          make_step();
      }
    });
  EXPECT_EQ(losses[1], losses[0]);
}

TEST_F(CudaTraining, ATraceHasTheOperationsOfTheGpu) {
  const RunResult result = run(resolve(kGrouped + kCuda + Settings{"run.trace=true"}));
  ASSERT_TRUE(result.operations);
  EXPECT_GT(result.operations->classes.at(0).count, 0);
  const std::vector<Span> spans =
      read_chrome_trace(read_text(disk_, dir_ / "out/trace.json"), "trace.json");
  int on_gpu = 0;
  for (const Span& span : spans)
    on_gpu += span.lane == kDeviceLane && std::string_view(span.kind) == "kernel";
  EXPECT_GT(on_gpu, 20);
}

TEST_F(CudaTraining, MemoryIsWhatWasPredicted) {
  for (const Settings& layout :
       {Settings{}, Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2),
        Settings{"parallel.pp=2"}, Settings{"memory.recompute=full"}})
    expect_predicted_memory(kGrouped + layout + kCuda);
}

TEST_F(CudaTraining, EveryAxisIsRight) {
  for (const Settings& family : {kGpt, kGrouped, kNormed})
    for (const Settings& layout :
         {Settings{"parallel.dp=2"}, Settings{"parallel.dp=4"},
          Settings{"parallel.shard=2", "parallel.zero=1"},
          Settings{"parallel.shard=4", "parallel.zero=2"},
          Settings{"parallel.shard=2", "parallel.zero=3", "parallel.dp=2"}, shared_by(2) + kWhole,
          shared_by(2) + kOwn, shared_by(2) + Settings{"parallel.tp_overlap=true"},
          context(2, "ring"), context(2, "ulysses"), context(2, "allgather"),
          context(4, "ring+ulysses"), Settings{"parallel.pp=2", "parallel.schedule=gpipe"},
          Settings{"parallel.pp=2", "parallel.schedule=1f1b"},
          Settings{"parallel.pp=2", "parallel.schedule=zb-v", "model.layers=4"}})
      expect_right(family + layout + kCuda);
}

TEST_F(CudaTraining, ASlidingWindowIsRight) {
  const Settings windowed = {"model.family=mistral", "model.kv_heads=4", "model.sliding_window=5",
                             "train.steps=8"};
  const std::vector<double> cpu = losses_of(windowed, 8), gpu = losses_of(windowed + kCuda, 8);
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(gpu[i], cpu[i], 1e-4 * cpu[i]) << "step " << i + 1;
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, shared_by(2), context(2, "ring"), context(2, "ulysses"),
        context(2, "allgather"), context(2, "ring") + Settings{"model.sliding_window=1"},
        Settings{"parallel.pp=2", "memory.recompute=selective"}}) {
    expect_right(windowed + layout + kCuda);
    EXPECT_NE(verify(windowed + layout + kCuda + Settings{"precision.compute=bf16"}).verdict,
              Verdict::Bug)
        << join(layout, " ");
  }
}

TEST_F(CudaTraining, ProductsOfAxesAreRight) {
  expect_right(kGrouped + shared_by(2) + Settings{"parallel.dp=2", "parallel.pp=2"} + kCuda);
  expect_right(kGrouped + shared_by(2) + context(2, "ring") +
               Settings{"parallel.shard=2", "parallel.zero=3"} + kCuda);
  expect_right(
      kGrouped + shared_by(2) +
      Settings{"parallel.shard=2", "parallel.zero=2", "parallel.pp=2", "parallel.schedule=zb-h1"} +
      kCuda);
  expect_right(
      kGrouped + shared_by(2) + context(2, "ring") +
      Settings{"parallel.shard=2", "parallel.zero=2", "parallel.pp=2", "parallel.schedule=zb-h1"} +
      kCuda);
}

TEST_F(CudaTraining, ASchedulesOrderChangesNothing) {
  const Settings deep =
      kGrouped + Settings{"parallel.pp=2", "model.layers=4", "batch.accumulation=4"} + kCuda;
  for (const char* name :
       {"zb-h1", "zb-h2", "zb-auto", "v-half", "v-min", "dualpipe", "dualpipe-v"})
    expect_right(deep + Settings{concat("parallel.schedule=", name)});
  for (const char* name : {"interleaved", "looped-bfs", "interleaved-zb"})
    expect_right(deep + Settings{concat("parallel.schedule=", name), "parallel.chunks=2"});
}

TEST_F(CudaTraining, NarrowTypesDifferByRoundingOnly) {
  for (const Settings& layout :
       {Settings{"parallel.dp=2"}, Settings{"parallel.shard=2", "parallel.zero=3"}, shared_by(2),
        context(2, "ring"), Settings{"parallel.pp=2"}})
    EXPECT_NE(verify(kGrouped + layout + kCuda + Settings{"precision.compute=bf16"}).verdict,
              Verdict::Bug)
        << join(layout, " ");
}

// Of every axis one that strikes without a race.
TEST_F(CudaTraining, FaultsOfTheNegativeTestsAreCaught) {
  const Settings data = {"parallel.dp=2"}, sharded = {"parallel.shard=2", "parallel.zero=3"},
                 pipeline = {"parallel.pp=2"}, ring = context(2, "ring"), tensor = shared_by(2);
  const std::pair<Settings, const char*> faults[] = {{data, "drop_bucket:group=1"},
                                                     {data, "max_bucket"},
                                                     {data, "update_twice:rank=0"},
                                                     {data, "mean_over_ranks:rank=0"},
                                                     {sharded, "skip_gather"},
                                                     {tensor, "drop_row_sum"},
                                                     {tensor, "norm_without_tp"},
                                                     {ring, "stuck_ring"},
                                                     {ring, "skip_merge"},
                                                     {pipeline, "doubled_message:rank=0"},
                                                     {pipeline, "lost_weight_gradient"}};
  for (const auto& [layout, fault] : faults)
    EXPECT_EQ(verify(kGrouped + layout + kCuda + Settings{concat("fault.inject=", fault)}).verdict,
              Verdict::Bug)
        << fault;
}

TEST_F(CudaTraining, ARunGoesOnFromItsCheckpointInAnotherLayoutAndOnTheCpu) {
  const double whole = loss_over(kGrouped + kCuda, {Settings{}});
  EXPECT_EQ(loss_over(kGrouped + kCuda, {Settings{}, Settings{}}), whole);
  const double sharded = loss_over(
      kGrouped,
      {kCuda, kCuda + Settings{"parallel.shard=2", "parallel.zero=2", "batch.accumulation=1"}});
  EXPECT_NEAR(sharded, whole, 1e-4 * whole);
  EXPECT_NEAR(loss_over(kGrouped, {kCuda, Settings{}}), whole, 1e-4 * whole);
}

TEST_F(CudaTraining, AnErrorOfCudaEndsTheRunInOneLine) {
  for (const Settings& layout : {Settings{}, Settings{"parallel.dp=2"}})
    EXPECT_ERROR(run(resolve(kGrouped + layout + kCuda +
                             Settings{"train.steps=4", "fault.inject=gpu_error:rank=0,step=2"})),
                 Failure, "CUDA: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)");
}

TEST_F(CudaTraining, BadDataEndsTheStepWithTheSameText) {
  Config config = config_of(kGrouped + kCuda);
  const Loader data = Loader::open(
      disk_, config.data, {config.model.seq, config.model.vocab, config.train.seed, 1, {}});
  config.model.vocab = 64;
  const Preflight flight = preflight(config, 0);
  EXPECT_ERROR(run_world(config, clock_, nullptr,
                         [&](Communicator& world) {
                           Mesh mesh(world, mesh_shape(config.parallel));
                           Trainer trainer(config, flight, mesh, data, disk_, clock_);
                           trainer.train_step();
                         }),
               Data, " is outside the vocabulary of 64");
}

constexpr const char* kMoreThanAnyGpu[] = {"model.hidden=32768", "model.heads=128",
                                           "model.layers=128", "model.ffn=131072"};

TEST_F(CudaTraining, ARunThatDoesNotFitIsRefusedBeforeItStarts) {
  EXPECT_GT(memory_limit(config_of(kGrouped + kCuda)), 0);
  EXPECT_ERROR(run(resolve(kGrouped + kCuda +
                           Settings(std::begin(kMoreThanAnyGpu), std::end(kMoreThanAnyGpu)))),
               Memory, "needs ");
}

// As when another program has taken the memory since it was planned.
TEST_F(CudaTraining, MemoryThatIsGoneWhenTheRunStartsEndsItInOneLine) {
  const Settings huge(std::begin(kMoreThanAnyGpu), std::end(kMoreThanAnyGpu));
  for (const Settings& layout : {Settings{}, Settings{"parallel.dp=2"}})
    EXPECT_ERROR(run(resolve(kGrouped + kCuda + huge + layout +
                             Settings{"run.memory_limit=100000000000000"})),
                 Memory, " bytes) cannot be allocated, ");
}

}  // namespace
}  // namespace sextant

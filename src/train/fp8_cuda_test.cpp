// Training in fp8 on a GPU, beside the CPU and run after run; its dry run needs no GPU.
#include <algorithm>

#include "support/fp8_runs.h"
#include "support/needs_gpu.h"
#include "train/phantom.h"

namespace sextant {
namespace {

// cuDNN's attention backward has other last bits on every run.
const Settings kFp8OnGpu = {"run.device=cuda", "run.cudnn_backward=false"};
// Sizes that cuBLASLt takes; the default ones are odd and have a kernel of ours.
const Settings kEvenSizes = {"model.hidden=64", "model.ffn=128",        "model.heads=4",
                             "model.seq=32",    "batch.accumulation=1", "batch.micro=4"};

// A dry run for a GPU needs none. With even sizes an operand is read once where its scale is known
// or that of a tile, else twice; the attention output once more for the weight gradient. An
// activation and its backward are made while the operand is read.
TEST_F(Fp8Test, OnCudaOperandsAreReadOnceForBothForms) {
  const auto count = [&](const Settings& recipe, const char* name,
                         const Settings& family = kGrouped) {
    const Config config = config_of(family + recipe + kEvenSizes + kFp8OnGpu);
    const Preflight flight = forecast(config, 0);
    const StepTraces traces = trace_steps(config, flight, 0, flight.plans[0]);
    return std::count_if(
        traces.trace.ops.begin() + static_cast<int64_t>(traces.second),
        traces.trace.ops.begin() + static_cast<int64_t>(traces.end),
        [&](const TraceOp& op) { return std::string_view(op.name).starts_with(name); });
  };
  const int64_t blocks = 2, linears = 4 * blocks;
  for (const Settings& recipe : kRecipes)
    EXPECT_EQ(count(recipe, "quantize"), 3 * linears + blocks) << join(recipe, " ");
  EXPECT_EQ(count(kFp8, "block_amax"), 3 * linears);
  EXPECT_EQ(count(kDelayed, "block_amax"), 0);
  EXPECT_EQ(count(kBlock, "block_amax"), 0);
  EXPECT_EQ(count(kFp8, "block_amax", kGpt), 3 * linears - 2 * blocks);
  EXPECT_EQ(count(kFp8, "activated_amax", kGpt), 2 * blocks);
  for (const Settings& recipe : kRecipes)
    EXPECT_EQ(count(recipe, "quantize", kGpt), 3 * linears + blocks) << join(recipe, " ");
}

class CudaFp8 : public Fp8Test {
 protected:
  void SetUp() override { SXT_NEEDS_GPU(); }
};

TEST_F(CudaFp8, OneRankFollowsTheCpu) {
  for (const Settings& recipe : kRecipes)
    for (const Settings& family : {kGpt, kGrouped, kNormed})
      for (const Settings& sizes : {Settings{}, kEvenSizes}) {
        const Settings steps =
            family + recipe + sizes + Settings{"train.steps=20", "optim.lr=1e-3"};
        const std::vector<double> cpu = losses_of(steps, 20),
                                  gpu = losses_of(steps + kFp8OnGpu, 20);
        ASSERT_EQ(gpu.size(), cpu.size());
        EXPECT_LT(gpu.back(), gpu.front());
        for (size_t i = 0; i < cpu.size(); ++i)
          EXPECT_NEAR(gpu[i], cpu[i], 4e-3 * cpu[i]) << join(steps, " ") << ", step " << i + 1;
      }
}

TEST_F(CudaFp8, HasTheSameBitsOnEveryRunAndAsAGraph) {
  for (const Settings& recipe : kRecipes)
    for (const Settings& sizes : {Settings{}, kEvenSizes}) {
      const Settings all = kGrouped + recipe + sizes + kFp8OnGpu;
      const std::vector<double> losses = losses_of(all, 6);
      EXPECT_EQ(losses_of(all, 6), losses) << join(all, " ");
      EXPECT_EQ(losses_of(all + Settings{"run.graphs=false"}, 6), losses) << join(all, " ");
    }
}

TEST_F(CudaFp8, MemoryIsWhatWasPredicted) {
  for (const Settings& family : {kGrouped, kGpt})
    for (const Settings& recipe : kRecipes)
      for (const Settings& layout :
           {Settings{}, shared_by(2), shared_by(2) + kWhole,
            Settings{"parallel.shard=2", "parallel.zero=3"}, Settings{"parallel.pp=2"},
            Settings{"memory.recompute=full"}, Settings{"memory.recompute=cheap"}})
        expect_predicted_memory(family + recipe + kEvenSizes + Settings{"batch.accumulation=2"} +
                                layout + kFp8OnGpu);
}

TEST_F(CudaFp8, RecomputationReplaysScalesToTheBit) {
  for (const Settings& family : {kGrouped, kGpt})
    for (const Settings& recipe : kRecipes) {
      const Settings all = family + recipe + kEvenSizes + kFp8OnGpu;
      const std::vector<double> losses = losses_of(all, 4);
      for (const char* recompute : {"full", "selective", "cheap"})
        EXPECT_EQ(losses_of(all + Settings{concat("memory.recompute=", recompute)}, 4), losses)
            << join(family + recipe, " ") << " " << recompute;
    }
}

TEST_F(CudaFp8, VerifyHolds) {
  for (const Settings& family : {kGrouped, kGpt})
    for (const Settings& recipe : kRecipes)
      for (const Settings& layout : {Settings{"parallel.dp=2"}, shared_by(2), shared_by(2) + kWhole,
                                     Settings{"parallel.shard=2", "parallel.zero=3"}}) {
        const VerifyReport report = verify(family + recipe + kEvenSizes + layout + kFp8OnGpu);
        EXPECT_NE(report.verdict, Verdict::Bug) << join(family + recipe + layout, " ") << "\n"
                                                << join(report.problems, "\n");
      }
}

TEST_F(CudaFp8, VerifyFindsAWrongScale) {
  for (const Settings& recipe : kRecipes)
    EXPECT_EQ(verify(kGrouped + recipe + kEvenSizes + kFp8OnGpu +
                     Settings{"parallel.tp=2", "fault.inject=wrong_scale"})
                  .verdict,
              Verdict::Bug)
        << join(recipe, " ");
}

TEST_F(CudaFp8, AResumedRunGoesOnBitForBit) {
  for (const Settings& recipe : kRecipes)
    EXPECT_EQ(loss_over(kGrouped + recipe + kFp8OnGpu, {{}, {}}),
              loss_over(kGrouped + recipe + kFp8OnGpu, {{}}))
        << join(recipe, " ");
}

}  // namespace
}  // namespace sextant

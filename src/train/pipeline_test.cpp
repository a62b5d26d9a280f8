// Pipelines have the results of one rank.
#include "support/counts.h"
#include "support/expect_error.h"
#include "support/pipelines.h"

namespace sextant {
namespace {

const Settings kTied = {"model.tied=true"}, kUntiedPipeline = {"model.tied=false"};

class PipelineVerify : public PipelineTest {
 protected:
  // Pipelines copy bits and sum in micro-batch order: equal bits. Two copies of a stage, or of a
  // tied embedding, sum in another order.
  void expect_one_rank(const char* model, const Piped& piped, const Settings& settings) {
    const bool tied = settings.front() == kTied.front();
    const VerifyReport report = verify(model, piped, settings);
    EXPECT_NE(report.verdict, Verdict::Bug) << testing::PrintToString(piped) << to_text(report);
    EXPECT_EQ(report.loss_max_rel, 0) << testing::PrintToString(piped);
    EXPECT_TRUE(report.bitwise || tied || piped.is_mirrored())
        << testing::PrintToString(piped) << to_text(report);
    EXPECT_LT(report.grad_max_rel, 1e-5) << testing::PrintToString(piped);
  }
  // Equal bits to the same data parallel ranks without a pipeline.
  void expect_bits_of(const std::string& data, const char* model, const Piped& piped,
                      const Settings& settings) {
    Settings layout = settings;
    for (const std::string& part : split(data, ',')) layout.push_back("parallel." + part);
    const VerifyReport report = verify(model, piped, layout, data);
    EXPECT_TRUE(report.bitwise) << testing::PrintToString(piped) << " with " << data << "\n"
                                << to_text(report);
  }
};

TEST_F(PipelineVerify, EveryScheduleHasTheBitsOfOneRank) {
  for (const Piped& piped : every_schedule(2)) {
    expect_one_rank(kLlama, piped, kUntiedPipeline);
    expect_one_rank(kGpt2, piped, kTied);
  }
}

// Only tied embeddings differ, in every layout.
TEST_F(PipelineVerify, ATiedWeightIsAllThatIsRoundedOtherwise) {
  const VerifyReport report = verify(kGpt2, {"1f1b", 2, 5}, kTied);
  EXPECT_EQ(report.verdict, Verdict::Rounding);
  for (const TensorVerdict& tensor : report.tensors)
    EXPECT_EQ(tensor.bitwise, tensor.name != "embedding.tokens.weight") << tensor.name;
}

TEST_F(PipelineVerify, FewerMicroBatchesThanRanksDo) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"})
    for (const int micros : {1, 2}) expect_one_rank(kLlama, {name, 3, micros}, kUntiedPipeline);
}

TEST_F(PipelineVerify, DataRanksSumAsTheyDoWithoutAPipeline) {
  expect_bits_of("dp=2", kLlama, {"1f1b", 2, 3}, kUntiedPipeline);
  expect_bits_of("shard=2,zero=1", kGpt2, {"zb-v", 2, 3}, kUntiedPipeline);
  expect_bits_of("shard=2,zero=2", kQwen3, {"interleaved", 2, 3, 2}, kUntiedPipeline);
  expect_bits_of("shard=2,zero=3", kLlama, {"1f1b", 2, 3}, kUntiedPipeline);
}

TEST_F(PipelineVerify, UnevenStagesAndLogitsInChunksChangeNothing) {
  expect_one_rank(kGpt2, {"1f1b", 3, 4},
                  kUntiedPipeline + Settings{"model.layers=5", "parallel.split=balanced",
                                             "memory.logits=chunked"});
  expect_one_rank(kLlama, {"zb-h1", 3, 4},
                  kUntiedPipeline + Settings{"model.layers=5", "parallel.split=0,4,1"});
  expect_one_rank(kGpt2, {"1f1b", 2, 3}, kTied + Settings{"model.layers=3", "parallel.split=3,0"});
}

// A batch that does not divide: some micro-batches are empty or shorter.
TEST_F(PipelineVerify, ABatchThatDoesNotDivideEqualsOneRank) {
  expect_one_rank(kLlama, {"1f1b", 2, 3},
                  kUntiedPipeline + Settings{"batch.global=5", "batch.micro=2"});
  expect_one_rank(kGpt2, {"zb-v", 2, 5},
                  kUntiedPipeline + Settings{"batch.global=9", "batch.micro=2"});
}

std::vector<std::string> accused(const VerifyReport& report) {
  std::vector<std::string> names;
  for (const TensorVerdict& tensor : report.tensors)
    if (tensor.verdict == Verdict::Bug) names.push_back(tensor.name);
  return names;
}

bool names_only(const std::vector<std::string>& names, const std::string& begin) {
  return !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return name.starts_with(begin);
  });
}

// Without the sum, first and last rank lack each other's gradient and diverge.
TEST_F(PipelineVerify, FindsATiedWeightWhoseEndsWereNotSummed) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const VerifyReport report =
        verify(kGpt2, {schedule, 2, 3},
               kTied + Settings{"fault.inject=skip_duplicate:group=0", "optim.clip=0"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    const std::vector<std::string> names = accused(report);
    EXPECT_NE(std::ranges::find(names, "embedding.tokens.weight"), names.end()) << to_text(report);
    for (const std::string& name : names)
      EXPECT_TRUE(name.starts_with("embedding.") || name.starts_with("head.norm.")) << name;
  }
}

TEST_F(PipelineVerify, FindsAMirroredStageWhoseCopiesWereNotSummed) {
  const VerifyReport report =
      verify(kLlama, {"dualpipe", 2, 4},
             kUntiedPipeline + Settings{"fault.inject=skip_duplicate:group=1", "optim.clip=0"});
  EXPECT_EQ(report.verdict, Verdict::Bug);
  EXPECT_TRUE(names_only(accused(report), "layers.0.")) << to_text(report);
}

TEST_F(PipelineVerify, FindsABucketThatWasDropped) {
  for (const char* layout : {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    const VerifyReport report =
        verify(kLlama, {"1f1b", 2, 2},
               kUntiedPipeline + Settings{"parallel.shard=2", layout,
                                          "fault.inject=drop_bucket:group=2", "optim.clip=0"});
    EXPECT_EQ(report.verdict, Verdict::Bug) << layout;
    EXPECT_TRUE(names_only(accused(report), "layers.1.")) << layout << to_text(report);
  }
}

// CI runs these under ThreadSanitizer.
class RacedPipeline : public PipelineTest {
 protected:
  // Steps, evaluations, a checkpoint.
  void run_it(const Piped& piped, const Settings& layout) {
    const Settings common = {"run.out=" + (dir_ / "out"), "train.eval_every=1", "train.steps=2"};
    EXPECT_EQ(run(config(kGpt2, piped, layout + common)).steps, 2);
  }
};

TEST_F(RacedPipeline, StepsEvaluatesAndSaves) {
  run_it({"1f1b", 3, 4}, kTied);
  run_it({"zb-v", 2, 4}, kTied);
  run_it({"dualpipe", 2, 4}, kTied);
  run_it({"interleaved-zb", 2, 3, 2}, kUntiedPipeline);
}

TEST_F(RacedPipeline, GathersAndReducesBesides) {
  for (const char* zero : {"parallel.zero=2", "parallel.zero=3"}) {
    run_it({"1f1b", 2, 3}, kTied + Settings{"parallel.shard=2", zero});
    run_it({"zb-v", 2, 4}, kTied + Settings{"parallel.shard=2", zero});
    run_it({"dualpipe", 2, 4}, kUntiedPipeline + Settings{"parallel.shard=2", zero});
  }
}

// Long grids: every schedule, family and combination.
class SlowPipelines : public PipelineVerify, public testing::WithParamInterface<Piped> {};

std::vector<Piped> all_pipelines() {
  std::vector<Piped> all;
  for (const int ranks : {2, 3, 4})
    for (const Piped& piped : every_schedule(ranks)) all.push_back(piped);
  for (const char* name : {"interleaved", "looped-bfs", "interleaved-zb"})
    all.push_back({name, 2, 5, 3});
  all.push_back({"dualpipe", 2, 10, 1});
  return all;
}

std::string name_of_piped(const testing::TestParamInfo<Piped>& info) {
  std::string name = info.param.schedule;
  std::ranges::replace(name, '-', '_');
  return name + "_p" + std::to_string(info.param.ranks) + "_m" + std::to_string(info.param.micros) +
         "_v" + std::to_string(info.param.chunks);
}

INSTANTIATE_TEST_SUITE_P(Of, SlowPipelines, testing::ValuesIn(all_pipelines()), name_of_piped);

TEST_P(SlowPipelines, HaveTheBitsOfOneRank) {
  GridSample sample(5);
  for (const char* model : {kGpt2, kLlama, kQwen3})
    for (const Settings& tied : {kUntiedPipeline, kTied}) {
      if (sample.takes()) expect_one_rank(model, GetParam(), tied);
      if (sample.takes())
        expect_one_rank(model, GetParam(), tied + Settings{"memory.logits=chunked"});
    }
  // Two blocks a stage, several threads.
  const Settings two = {"model.layers=" + std::to_string(2 * GetParam().stages()), "batch.micro=2",
                        "run.threads=2"};
  if (sample.takes()) expect_one_rank(kLlama, GetParam(), kUntiedPipeline + two);
}

TEST_P(SlowPipelines, AreEqualUnderUnevenSplits) {
  GridSample sample(3);
  const int stages = GetParam().stages();
  std::string list = "0";
  for (int stage = 1; stage < stages; ++stage) list += stage == 1 ? ",2" : ",1";
  const Settings layers = {"model.layers=" + std::to_string(stages)};
  for (const Settings& tied : {kUntiedPipeline, kTied}) {
    if (sample.takes())
      expect_one_rank(kGpt2, GetParam(), tied + layers + Settings{"parallel.split=" + list});
    if (sample.takes())
      expect_one_rank(kLlama, GetParam(), tied + layers + Settings{"parallel.split=balanced"});
  }
}

// dp2, zero 1 to 3, and both: no bug against one rank; the same bits as the same data parallel
// ranks, except where several micro-batches share a gradient bucket and are summed first.
TEST_P(SlowPipelines, CombineWithDataRanks) {
  GridSample sample(3);
  for (const char* data : {"dp=2", "shard=2,zero=1", "shard=2,zero=2", "shard=2,zero=3",
                           "dp=2,shard=2,zero=1", "dp=2,shard=2,zero=2", "dp=2,shard=2,zero=3"}) {
    if (!sample.takes()) continue;
    Settings layout;
    for (const std::string& part : split(data, ',')) layout.push_back("parallel." + part);
    const char* model = GetParam().ranks == 2 ? kGpt2 : GetParam().ranks == 3 ? kLlama : kQwen3;
    for (const Settings& tied : {kUntiedPipeline, kTied}) {
      const VerifyReport report = verify(model, GetParam(), tied + layout);
      EXPECT_NE(report.verdict, Verdict::Bug) << data << "\n" << to_text(report);
      EXPECT_LT(report.grad_max_rel, 1e-5) << data;
    }
    const bool has_buckets = std::string(data).find("zero=") != std::string::npos &&
                             std::string(data).find("zero=1") == std::string::npos;
    if (!GetParam().is_mirrored() && !(has_buckets && GetParam().splits_backward()))
      expect_bits_of(data, model, GetParam(), kUntiedPipeline);
  }
}

}  // namespace
}  // namespace sextant

#include "plan/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "plan/fit.h"
#include "plan/memory.h"
#include "plan/report.h"
#include "plan/step_time.h"
#include "support/built.h"

namespace sextant {
namespace {

std::vector<PublishedRun> published() {
  DiskStorage storage;
  const std::string path = source_dir() + "/docs/planner/runs.csv";
  return read_runs(read_text(storage, path), path);
}

TEST(Constants, AreFewAndWithinTheirRanges) {
  EXPECT_LE(constant_table().size(), 25u);
  for (const ConstantInfo& info : constant_table()) {
    EXPECT_GE(Constants{}.*info.value, info.least) << info.name;
    EXPECT_LE(Constants{}.*info.value, info.most) << info.name;
  }
}

TEST(Evaluate, PublishedRunsArePredictedWithinTheGoals) {
  DiskStorage storage;
  const std::vector<PublishedRun> runs = published();
  const TableEvaluation e = evaluate_runs(storage, runs, Constants{});
  EXPECT_EQ(e.rows.size(), 1040u);
  EXPECT_EQ(e.all.n, 538);
  EXPECT_LE(e.all.mape, 0.062);
  for (const auto& [name, s] : e.sources)
    if (s.n >= 8) {
      EXPECT_LE(s.mape, 0.15) << name;
    }
  EXPECT_GE(e.fits.right(), 0.97);
  EXPECT_LE(e.fits.wrong_fits(), 0.01);
  EXPECT_LE(e.memory.mape, 0.06);
  EXPECT_EQ(e.regret.failed, 0);
  EXPECT_LE(e.regret.mean, 0.013);
  EXPECT_LE(e.regret.worst, 0.249);  // the goal of 8 % is missed (docs/planner.md): no worse
  for (const RunPrediction& row : e.rows) EXPECT_TRUE(row.step_s > 0 && row.mem_gib > 0) << row.id;
}

const PublishedRun& run_with(const std::vector<PublishedRun>& runs, const std::string& id) {
  return *std::ranges::find(runs, id, &PublishedRun::id);
}

TEST(Evaluate, TheTenRowsOfMegatronAreWithinTwelvePercent) {
  DiskStorage storage;
  const std::vector<PublishedRun> runs = published();
  const TableEvaluation e = evaluate_runs(storage, std::span(runs).first(10), Constants{});
  const int replicas[] = {32, 32, 32, 32, 32, 32, 24, 15, 9, 6};
  for (size_t i = 0; i < 10; ++i) {
    const Layout layout = infer_case(storage, runs[i], Constants{}).asked.layout;
    EXPECT_EQ(layout.world(), static_cast<int64_t>(*runs[i].gpus));
    EXPECT_EQ(layout.data_ranks(), replicas[i]) << runs[i].model;
    EXPECT_NEAR(e.rows[i].step_s / *runs[i].step_s, 1, 0.12) << runs[i].model;
  }
}

// They have no step time, so the fit has not seen them.
TEST(Evaluate, LlamaThreesUtilisationIsPredicted) {
  DiskStorage storage;
  const Constants k;
  const std::vector<PublishedRun> runs = published();
  struct Row {
    const char* id;
    double tflops;
  };
  for (const Row& row : {Row{"71", 430}, Row{"72", 400}}) {
    const Case asked = infer_case(storage, run_with(runs, row.id), k).asked;
    EXPECT_EQ(asked.layout.pp, 16);  // 126 layers: 8 on a middle stage, 7 at the ends
    EXPECT_EQ(stage_layers(asked.shape.layers, asked.layout.pp).first, 7);
    const double tokens = 2048.0 * 8192;
    EXPECT_NEAR(tokens / 1e6, 16.78, 0.01);
    const double tflops = model_flops(asked.shape, tokens) /
                          simulated_step_time(asked, k, 1 << 20).total() /
                          static_cast<double>(asked.layout.world()) / 1e12;
    EXPECT_NEAR(tflops / row.tflops, 1, 0.15) << row.id;
  }
}

TEST(Evaluate, SlowEachSourceIsPredictedFromTheOthers) {
  DiskStorage storage;
  const LeftOut left = leave_one_out(storage, published(), Constants{});
  EXPECT_LE(left.all.mape, 0.096);
  for (const auto& [name, s] : left.origins) EXPECT_LE(s.mape, 0.17) << name;
  EXPECT_GE(left.coverage, 0.85);
  EXPECT_LE(left.coverage, 0.95);
}

// docs/planner/accuracy.md is made by `plan evaluate --report`; it is made again when it changes.
TEST(Evaluate, SlowTheAccuracyPageHasTheseNumbers) {
  DiskStorage storage;
  const std::vector<PublishedRun> runs = published();
  const Constants k;
  const std::string made =
      accuracy_page(runs, evaluate_runs(storage, runs, k), leave_one_out(storage, runs, k), k);
  const std::string path = source_dir() + "/docs/planner/accuracy.md";
  const auto until_sources = [](const std::string& page) {
    return page.substr(0, page.find("## By source"));
  };
  EXPECT_EQ(until_sources(read_text(storage, path)), until_sources(made));
}

// The bounds of beyond_table are those of the committed table.
TEST(Evaluate, SaysInWhatACaseLiesOutsideTheTable) {
  DiskStorage storage;
  Case widest;
  int64_t gpus = 0;
  for (const PublishedRun& run : published()) {
    if (!run.scored) continue;
    const Case asked = infer_case(storage, run, Constants{}).asked;
    for (const std::string& text : beyond_table(asked)) EXPECT_EQ(text, "") << "run " << run.id;
    gpus = std::max(gpus, static_cast<int64_t>(run.gpus.value_or(0)));
    widest.shape.seq = std::max(widest.shape.seq, asked.shape.seq);
    widest.layout.cp = std::max(widest.layout.cp, asked.layout.cp);
  }
  EXPECT_EQ(gpus, 3072);
  EXPECT_EQ(widest.shape.seq, 262144);
  EXPECT_EQ(widest.layout.cp, 8);
  Case asked = infer_case(storage, published()[0], Constants{}).asked;
  asked.layout.cp = 16;
  asked.shape.seq = 1 << 20;
  const std::string text = join(beyond_table(asked), "; ");
  EXPECT_NE(text.find("1048576 tokens a sequence (at most 262144)"), std::string::npos) << text;
  EXPECT_NE(text.find("16 ranks of cp (at most 8)"), std::string::npos) << text;
}

TEST(Evaluate, Fp8RecipesAreReadFromThePrecisionColumn) {
  DiskStorage storage;
  PublishedRun tensorwise, rowwise;
  for (const PublishedRun& run : published()) {
    if (run.id == "159") tensorwise = run;
    if (run.id == "161") rowwise = run;
  }
  const Constants k;
  const double a = step_time(infer_case(storage, tensorwise, k).asked, k).total();
  const double b = step_time(infer_case(storage, rowwise, k).asked, k).total();
  EXPECT_GT(b / a, 1.2);  // measured: 27.3 s against 20.2 s
}

// Their list of embedding, layers, norm and head is cut into equal runs: of 43 items and 4 ranks
// the first three get 11. The others of the same search problem ran too.
TEST(Evaluate, TheHeadCountsAsALayerWhereTheListIsCutEvenly) {
  DiskStorage storage;
  const std::vector<PublishedRun> runs = published();
  const Case asked = infer_case(storage, run_with(runs, "1183"), Constants{}).asked;
  const StageLayers split = stage_layers(asked);
  EXPECT_EQ(split.first, 10);
  EXPECT_EQ(split.middle, 11);
  EXPECT_EQ(split.last, 8);
  EXPECT_TRUE(fits(asked, memory_use(asked, Constants{})));
  const Case two = infer_case(storage, run_with(runs, "1188"), Constants{}).asked;
  EXPECT_EQ(stage_layers(two).first, 21);
  EXPECT_EQ(stage_layers(two).last, 19);
}

TEST(Evaluate, NoRowStopsIt) {
  DiskStorage storage;
  const std::string text =
      "id,model,gpu,gpus,layers,hidden,tp,pp,dp,mbs,gbs,seq,kv_heads,vpp,notes\n"
      "1,,,,,,,,,,,,,,\n"
      "2,\"a \"\"b\"\", c\",nonsense,-4,-1,0,0,-7,1e300,nan,inf,x,MLA(,max,\n"
      "3,llama,H100,8,1,1,8,8,1,1,1,1,0,0,w/ MTP\n"
      "4,x-7b,A100,16,32,4096\n";
  const std::vector<PublishedRun> runs = read_runs(text, "odd.csv");
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].model, "a \"b\", c");
  const TableEvaluation e = evaluate_runs(storage, runs, Constants{});
  for (const RunPrediction& row : e.rows) {
    EXPECT_GT(row.step_s, 0) << row.id;
    EXPECT_FALSE(row.assumed.empty()) << row.id;
  }
}

TEST(Evaluate, ATableWithoutIdsIsRefused) {
  EXPECT_THROW(read_runs("model,gpu\nllama,H100\n", "odd.csv"), Error);
}

TEST(Fit, FindsTheConstantsThatMadeTheTimes) {
  DiskStorage storage;
  Constants truth;
  truth.gemm = 0.8;
  truth.flash2 = 0.45;
  truth.memory_rate = 0.7;
  std::vector<Observation> seen;
  for (const PublishedRun& run : published())
    if (run.scored && run.source.starts_with("Aleph")) {
      const Case asked = infer_case(storage, run, truth).asked;
      seen.push_back({asked, step_time(asked, truth).total(), 1});
    }
  const Constants found = fit_constants(seen, Constants{}, 60);
  EXPECT_NEAR(found.gemm, 0.8, 0.03);
  EXPECT_NEAR(found.flash2, 0.45, 0.05);
  double error = 0;
  for (const Observation& run : seen)
    error += std::abs(step_time(run.asked, found).total() / run.seconds - 1);
  EXPECT_LT(error / static_cast<double>(seen.size()), 0.01);
}

}  // namespace
}  // namespace sextant

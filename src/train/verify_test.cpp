#include "train/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/parse.h"
#include "support/counts.h"
#include "support/expect_error.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// Some faults are data races, which the thread sanitizer reports itself.
#if defined(__SANITIZE_THREAD__)
constexpr bool kReportsRaces = true;
#else
constexpr bool kReportsRaces = false;
#endif

constexpr const char* kGpt2 = R"(
[model]
family = "gpt2"
layers = 2
hidden = 16
heads = 2
ffn = 24
vocab = 259
seq = 16
)";
constexpr const char* kLlama = R"(
[model]
family = "llama"
layers = 2
hidden = 24
heads = 4
kv_heads = 2
ffn = 20
vocab = 256
seq = 16
tied = false
)";

struct Layout {
  int dp, shard, zero;
  int ranks() const { return dp * shard; }
};

class Verify : public testing::Test {
 protected:
  VerifyReport verify(const char* model, const Layout& layout,
                      std::vector<std::string> overrides = {}, const std::string& against = "") {
    overrides.push_back("parallel.dp=" + std::to_string(layout.dp));
    overrides.push_back("parallel.shard=" + std::to_string(layout.shard));
    overrides.push_back("parallel.zero=" + std::to_string(layout.zero));
    overrides.push_back("optim.lr=1e-2");
    return verify_layout(parse_config(model, "test", overrides).config, {2, against},
                         {disk_, clock_, log_, stop_});
  }
  // Equally many sequences per rank and micro-batch.
  static std::vector<std::string> batch(int64_t micro, int64_t accumulation) {
    return {"batch.micro=" + std::to_string(micro),
            "batch.accumulation=" + std::to_string(accumulation)};
  }

  DiskStorage disk_;
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
  std::atomic<bool> stop_{false};
};

std::vector<Layout> layouts() {
  std::vector<Layout> all = {{1, 1, 0}, {2, 1, 0}, {4, 1, 0}, {8, 1, 0}};
  for (const int zero : {1, 2, 3}) {
    for (const int shard : {2, 3, 4, 8}) all.push_back({1, shard, zero});
    all.push_back({2, 2, zero});
    all.push_back({2, 4, zero});
  }
  return all;
}

std::string layout_name(const testing::TestParamInfo<Layout>& info) {
  return "Dp" + std::to_string(info.param.dp) + "Shard" + std::to_string(info.param.shard) +
         "Zero" + std::to_string(info.param.zero);
}

class SlowEveryLayout : public Verify, public testing::WithParamInterface<Layout> {};
INSTANTIATE_TEST_SUITE_P(Of, SlowEveryLayout, testing::ValuesIn(layouts()), layout_name);

// A sum over ranks in rank order is the sum over as many micro-batches in order, bit for bit. HSDP
// sums twice.
TEST_P(SlowEveryLayout, HasTheBitsOfAccumulationOnOneRank) {
  GridSample sample(2);
  for (const char* model : {kGpt2, kLlama}) {
    if (!sample.takes()) continue;
    const VerifyReport report = verify(model, GetParam(), batch(2, 1));
    EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
    const bool is_one_sum = GetParam().dp == 1 || GetParam().shard == 1;
    EXPECT_TRUE(report.bitwise || !is_one_sum) << to_text(report);
  }
}

TEST_P(SlowEveryLayout, IsWithinRoundingWhenItAccumulates) {
  GridSample sample(2);
  for (const char* model : {kGpt2, kLlama}) {
    if (!sample.takes()) continue;
    const VerifyReport report = verify(model, GetParam(), batch(1, 3));
    EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
    EXPECT_LT(report.grad_max_rel, 1e-5);
    EXPECT_EQ(report.loss_max_rel, 0);
  }
}

TEST_F(Verify, EveryStageOfZeroHasTheBitsOfDdp) {
  for (const char* model : {kGpt2, kLlama})
    for (const int zero : {1, 2, 3})
      for (const int ranks : {2, 3, 4}) {
        const VerifyReport report =
            verify(model, {1, ranks, zero}, batch(2, 1), "dp=" + std::to_string(ranks));
        EXPECT_TRUE(report.bitwise) << to_text(report);
        EXPECT_EQ(report.verdict, Verdict::Equal);
      }
  // ZeRO-1 sums micro-batches first, as DDP does; 2 and 3 sum ranks first.
  EXPECT_TRUE(verify(kGpt2, {1, 4, 1}, batch(1, 3), "dp=4").bitwise);
  EXPECT_FALSE(verify(kGpt2, {1, 4, 2}, batch(1, 3), "dp=4").bitwise);
}

TEST_F(Verify, ABatchThatDoesNotDivideEqualsOneRank) {
  for (const Layout& layout : {Layout{3, 1, 0}, {1, 3, 1}, {1, 3, 2}, {1, 3, 3}})
    for (const char* accumulation : {"1", "2"}) {
      const VerifyReport report = verify(
          kLlama, layout, {"batch.global=8", std::string("batch.accumulation=") + accumulation});
      EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
      EXPECT_LT(report.grad_max_rel, 1e-5);
    }
}

// Parameters that a report calls wrong.
std::vector<std::string> names_of_bugs(const VerifyReport& report) {
  std::vector<std::string> names;
  for (const TensorVerdict& tensor : report.tensors)
    if (tensor.verdict == Verdict::Bug) names.push_back(tensor.name);
  return names;
}

bool is_of(const std::vector<std::string>& names, const std::string& group) {
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.starts_with(group);
  });
}

TEST_F(Verify, FindsABucketThatWasDropped) {
  for (const Layout& layout : {Layout{4, 1, 0}, {1, 4, 1}, {1, 4, 2}, {1, 4, 3}, {2, 2, 2}}) {
    const VerifyReport report = verify(
        kLlama, layout, {"fault.inject=drop_bucket:group=1", "batch.micro=1", "optim.clip=0"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.0.")) << to_text(report);
  }
}

TEST_F(Verify, FindsAShardThatWasScaled) {
  for (const int zero : {1, 2, 3}) {
    const VerifyReport report =
        verify(kLlama, {1, 4, zero}, {"fault.inject=scale_shard:rank=3,group=2", "batch.micro=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.1.")) << to_text(report);
  }
}

TEST_F(Verify, FindsWeightsThatWereNotGathered) {
  for (const int zero : {1, 2}) {
    const VerifyReport report =
        verify(kLlama, {1, 2, zero}, {"fault.inject=skip_gather:group=2,step=2", "batch.micro=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.1.")) << to_text(report);
    EXPECT_NE(report.tensors[12].problem.find("step 2: the copy on rank"), std::string::npos)
        << to_text(report);
  }
  const VerifyReport report =
      verify(kLlama, {1, 2, 3}, {"fault.inject=skip_gather:group=2", "batch.micro=1"});
  EXPECT_EQ(report.verdict, Verdict::Bug);
}

// The problems other than of tensors.
std::string problems(const VerifyReport& report) {
  return join(report.problems, "\n");
}

// In a narrow type a layout is judged by its error against fp32, beside that of one rank.
TEST_F(Verify, JudgesNarrowTypesByTheirError) {
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    for (const Layout& layout : {Layout{2, 1, 0}, {1, 2, 2}, {1, 2, 3}}) {
      // The default loss scale of fp16 overflows at first: both sides skip the same steps.
      const VerifyReport right =
          verify(kLlama, layout, {compute, "batch.micro=1", "batch.accumulation=2"});
      EXPECT_NE(right.verdict, Verdict::Bug) << compute << "\n" << to_text(right);
      const VerifyReport wrong =
          verify(kLlama, layout,
                 {compute, "precision.initial_loss_scale=1024", "batch.micro=1",
                  "fault.inject=drop_bucket:group=1", "optim.clip=0"});
      EXPECT_EQ(wrong.verdict, Verdict::Bug) << compute;
      EXPECT_TRUE(is_of(names_of_bugs(wrong), "layers.0.")) << to_text(wrong);
    }
}

const std::vector<std::vector<std::string>> kNarrow = {
    {"precision.compute=bf16"},
    {"precision.compute=fp16", "precision.initial_loss_scale=1024"},
    {"precision.compute=fp8"},
    {"precision.compute=fp8", "precision.fp8_recipe=delayed"},
    {"precision.compute=fp8", "precision.fp8_recipe=block"}};

// Against fp64, a layout may be off by twice the error of one rank and 1e-3 of the size.
TEST_F(Verify, MeasuresErrorsOfNarrowTypesAgainstFp64) {
  const auto grow = [](double error) { return 2 * error + 1e-3; };
  for (std::vector<std::string> settings : kNarrow)
    for (const Layout& layout : {Layout{2, 1, 0}, {1, 2, 3}, {1, 1, 0}}) {
      if (layout.ranks() == 1) settings.push_back("parallel.tp=2");
      settings.insert(settings.end(), {"batch.micro=1", "batch.accumulation=2"});
      const VerifyReport report = verify(kLlama, layout, settings);
      EXPECT_NE(report.verdict, Verdict::Bug) << settings[0] << "\n" << to_text(report);
      ASSERT_TRUE(report.is_narrow);
      const bool is_fp8 = settings[0].ends_with("fp8");
      for (const TensorVerdict& tensor : report.tensors) {
        EXPECT_GT(tensor.error_rel, 1e-4) << to_text(report);
        EXPECT_LT(tensor.error_rel, is_fp8 ? 0.5 : 0.05) << to_text(report);
        EXPECT_LE(tensor.error_rel, grow(tensor.reference_error_rel)) << to_text(report);
      }
      EXPECT_NE(to_text(report).find("error   reference  verdict"), std::string::npos);
    }
  const VerifyReport wide = verify(kLlama, {2, 1, 0}, batch(1, 2));
  EXPECT_FALSE(wide.is_narrow);
  EXPECT_EQ(to_text(wide).find("reference"), std::string::npos);
}

// Every layer computes in fp64.
TEST_F(Verify, MeasuresErrorsOfEveryFamily) {
  for (const char* preset :
       {"tiny", "tiny-mistral", "tiny-qwen3", "tiny-mixtral", "tiny-deepseek"}) {
    const std::string model = concat("[model]\npreset = \"", preset, "\"\n");
    const VerifyReport report =
        verify(model.c_str(), {2, 1, 0},
               {"precision.compute=bf16", "model.layers=2", "model.seq=16", "batch.micro=1"});
    EXPECT_NE(report.verdict, Verdict::Bug) << preset << "\n" << to_text(report);
    const auto farthest = std::ranges::max(report.tensors, {}, &TensorVerdict::error_rel);
    EXPECT_GT(farthest.error_rel, 1e-4) << preset;
  }
}

// What it changes is within rounding in a narrow type.
TEST_F(Verify, FindsStatisticsInBf16) {
  for (std::vector<std::string> settings : kNarrow)
    for (const Layout& layout : {Layout{2, 1, 0}, {1, 2, 3}, {1, 1, 0}}) {
      if (layout.ranks() == 1) settings.push_back("parallel.tp=2");
      settings.insert(settings.end(), {"batch.micro=1", "batch.accumulation=2",
                                       "fault.inject=narrow_statistics:rank=1"});
      const VerifyReport report = verify(kLlama, layout, settings);
      // Every norm, the log-sum-exp of attention and that of the loss.
      for (const TensorVerdict& tensor : report.tensors) {
        const bool has_any = tensor.name.find("norm") != std::string::npos ||
                             tensor.name.find("qkv") != std::string::npos ||
                             tensor.name == "head.output.weight";
        EXPECT_EQ(tensor.problem == "step 1: its statistics on rank 1 are narrower than fp32",
                  has_any)
            << settings[0] << "\n"
            << to_text(report);
      }
    }
}

constexpr const char* kMixtral = R"(
[model]
family = "mixtral"
layers = 2
hidden = 32
heads = 4
kv_heads = 2
ffn = 48
vocab = 259
seq = 16
tied = false
experts = 4
expert_ffn = 24
)";

// The reference sends tokens where the layout did, so that no noise of the routing hides a bug.
TEST_F(Verify, FindsBugsOfExpertsInNarrowTypes) {
  const std::vector<std::string> common = {"batch.micro=2", "batch.accumulation=2", "parallel.ep=2",
                                           "precision.initial_loss_scale=1024"};
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"}) {
    std::vector<std::string> settings = common;
    settings.push_back(compute);
    const VerifyReport right = verify(kMixtral, {4, 1, 0}, settings);
    EXPECT_EQ(right.verdict, Verdict::Rounding) << to_text(right);
    for (const auto& [fault, part] : {std::pair{"mean_over_edp", "moe.experts"},
                                      {"cut_router", "moe.router"},
                                      {"swapped_expert:rank=1", "moe."}}) {
      settings.push_back(std::string("fault.inject=") + fault);
      const VerifyReport wrong = verify(kMixtral, {4, 1, 0}, settings);
      settings.pop_back();
      EXPECT_EQ(wrong.verdict, Verdict::Bug) << fault << "\n" << to_text(wrong);
      EXPECT_TRUE(std::ranges::any_of(
          names_of_bugs(wrong),
          [&](const std::string& name) { return name.find(part) != std::string::npos; }))
          << fault << "\n"
          << to_text(wrong);
    }
  }
}

// The narrow copies have the same bits for many steps.
TEST_F(Verify, FindsWrongUpdatesOfMasterWeights) {
  for (const char* compute : {"bf16", "fp16", "fp8"})
    for (const auto& [fault, layout] : {std::pair{"lost_decay", Layout{1, 2, 1}},
                                        {"decayed_vectors", {2, 1, 0}},
                                        {"early_rate:rank=1", {2, 1, 0}}}) {
      const VerifyReport report =
          verify(kLlama, layout,
                 {std::string("precision.compute=") + compute, "precision.initial_loss_scale=1024",
                  "batch.micro=1", "optim.warmup=2000", "train.steps=10000",
                  std::string("fault.inject=") + fault});
      EXPECT_EQ(report.verdict, Verdict::Bug) << compute << " " << fault;
      EXPECT_FALSE(names_of_bugs(report).empty()) << compute << " " << fault;
    }
}

TEST_F(Verify, FindsSamplesThatAreNotThoseOfTheDataPlan) {
  EXPECT_EQ(problems(verify(kLlama, {2, 1, 0}, {"fault.inject=same_samples", "batch.micro=2"})),
            "step 1, rank 1, micro-batch 0: read samples 0 to 1, the data plan gives it samples 2 "
            "to 3");
  EXPECT_EQ(problems(verify(kLlama, {1, 2, 3},
                            {"fault.inject=shifted_samples:rank=1,step=2", "batch.micro=1"})),
            "step 2, rank 1, micro-batch 0: read sample 4, the data plan gives it sample 3");
}

TEST_F(Verify, FindsAWaitThatIsMissingWhateverWasRead) {
  if (kReportsRaces) GTEST_SKIP() << "the fault is a data race";
  for (const int zero : {1, 2}) {
    const VerifyReport report =
        verify(kLlama, {1, 2, zero}, {"fault.inject=no_await:group=1", "batch.micro=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_NE(problems(report).find("not ordered: rank 0: compute rmsnorm"), std::string::npos)
        << problems(report);
    EXPECT_NE(problems(report).find("behind shard all_gather"), std::string::npos);
  }
}

// The learning rate is tiny: relative to the weight there is hardly a difference.
TEST_F(Verify, FindsUpdatesThatAreMissingHoweverSmallTheyAre) {
  for (const char* fault : {"lost_decay", "skipped_update", "lost_moments"})
    for (const int zero : {1, 2, 3}) {
      const VerifyReport report = verify(kLlama, {1, 2, zero},
                                         {std::string("fault.inject=") + fault, "batch.micro=1",
                                          "optim.warmup=2000", "train.steps=10000"});
      EXPECT_EQ(report.verdict, Verdict::Bug) << fault;
      EXPECT_TRUE(is_of(names_of_bugs(report), "")) << fault;
      EXPECT_GT(report.update_max_rel, 1e-3) << fault;
    }
}

TEST_F(Verify, DropoutOfNearlyAllIsNoBug) {
  for (const char* model : {kGpt2, kLlama}) {
    const VerifyReport report =
        verify(model, {1, 1, 0},
               {"parallel.tp=2", "model.dropout=0.99", "batch.micro=2", "model.init_std=1"});
    EXPECT_EQ(report.verdict, Verdict::Rounding) << to_text(report);
  }
}

TEST_F(Verify, RunsFreeWithTheSameBitsWhereAllSumsAreTheSame) {
  const VerifyReport report = verify(kLlama, {4, 1, 0}, batch(1, 1));
  EXPECT_TRUE(report.ran_free && report.bitwise);
  EXPECT_EQ(report.free_max_rel, 0);
  const VerifyReport rounded = verify(kLlama, {2, 1, 0}, batch(1, 3));
  EXPECT_TRUE(rounded.ran_free && !rounded.bitwise);
  EXPECT_GT(rounded.free_max_rel, 0);
  EXPECT_LT(rounded.free_max_rel, 1e-3);
}

TEST_F(Verify, EndsAtTheFirstStepThatIsNotFiniteInBoth) {
  const std::vector<std::string> settings = {"parallel.dp=2", "batch.micro=1", "optim.lr=1000",
                                             "optim.schedule=constant", "optim.weight_decay=100"};
  const Config config = parse_config(kLlama, "test", settings).config;
  const VerifyReport report = verify_layout(config, {5, ""}, {disk_, clock_, log_, stop_});
  EXPECT_EQ(report.verdict, Verdict::Equal) << to_text(report);
  EXPECT_NE(report.end.find("step 4: the gradient norm is"), std::string::npos) << report.end;
  EXPECT_EQ(report.steps, 3);
}

TEST_F(Verify, ComparesAtLeastThreeStepsUnlessToldOtherwise) {
  const auto steps_of = [&](const char* steps) {
    const std::vector<std::string> settings = {"batch.micro=1",
                                               std::string("train.steps=") + steps};
    const Config config = parse_config(kLlama, "test", settings).config;
    return verify_layout(config, {}, {disk_, clock_, log_, stop_}).steps;
  };
  EXPECT_EQ(steps_of("1"), 3);
  EXPECT_EQ(steps_of("4"), 4);
  EXPECT_EQ(steps_of("100"), 5);
}

TEST_F(Verify, TheLimitOfARankIsNotThatOfTheReference) {
  std::vector<std::string> overrides = batch(1, 1);
  overrides.insert(overrides.end(), {"parallel.shard=4", "parallel.zero=3", "run.threads=1"});
  const Preflight flight = preflight(parse_config(kLlama, "test", overrides).config, 0);
  overrides = batch(1, 1);
  overrides.insert(overrides.end(),
                   {"run.threads=1", "run.memory_limit=" + std::to_string(flight.memory[0].peak)});
  EXPECT_NE(verify(kLlama, {1, 4, 3}, overrides).verdict, Verdict::Bug);
}

TEST_F(Verify, RefusesAReferenceThatCannotBe) {
  const auto against = [&](const std::string& text) {
    return verify(kLlama, {4, 1, 0}, batch(1, 1), text);
  };
  EXPECT_ERROR(against("ep=2"), Config,
               "parallel.ep = 2 with model.family = llama, which has no experts");
  EXPECT_ERROR(against("tp=3"), Config, "parallel.tp = 2 works");
  EXPECT_ERROR(against("dp=x"), Usage, "parallel.dp = \"x\": takes an integer from 1");
  EXPECT_ERROR(against("dp"), Usage, "dp is not a key of [parallel] and its value");
  EXPECT_ERROR(against("shard=2,zero=0"), Config, "take zero 1, 2 or 3");
  EXPECT_ERROR(against("dp=3"), Usage, "cannot share the 4 micro-batches");
}

}  // namespace
}  // namespace sextant

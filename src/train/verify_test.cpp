#include "train/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/parse.h"
#include "support/counts.h"
#include "support/expect_error.h"
#include "support/verify_test.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// Some faults are data races, which the thread sanitizer reports itself.
#if defined(__SANITIZE_THREAD__)
constexpr bool kReportsRaces = true;
#else
constexpr bool kReportsRaces = false;
#endif

std::vector<ShardLayout> layouts() {
  std::vector<ShardLayout> all = {{1, 1, 0}, {2, 1, 0}, {4, 1, 0}, {8, 1, 0}};
  for (const int zero : {1, 2, 3}) {
    for (const int shard : {2, 3, 4, 8}) all.push_back({1, shard, zero});
    all.push_back({2, 2, zero});
    all.push_back({2, 4, zero});
  }
  return all;
}

std::string layout_name(const testing::TestParamInfo<ShardLayout>& info) {
  return "Dp" + std::to_string(info.param.dp) + "Shard" + std::to_string(info.param.shard) +
         "Zero" + std::to_string(info.param.zero);
}

class SlowEveryLayout : public Verify, public testing::WithParamInterface<ShardLayout> {};
INSTANTIATE_TEST_SUITE_P(Of, SlowEveryLayout, testing::ValuesIn(layouts()), layout_name);

// A sum over ranks in rank order is the sum over as many micro-batches in order, bit for bit. HSDP
// sums twice.
TEST_P(SlowEveryLayout, HasTheBitsOfAccumulationOnOneRank) {
  GridSample sample(2);
  for (const char* model : {kVerifyGpt2, kVerifyLlama}) {
    if (!sample.takes()) continue;
    const VerifyReport report = verify(model, GetParam(), batch(2, 1));
    EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
    const bool is_one_sum = GetParam().dp == 1 || GetParam().shard == 1;
    EXPECT_TRUE(report.bitwise || !is_one_sum) << to_text(report);
  }
}

TEST_P(SlowEveryLayout, IsWithinRoundingWhenItAccumulates) {
  GridSample sample(2);
  for (const char* model : {kVerifyGpt2, kVerifyLlama}) {
    if (!sample.takes()) continue;
    const VerifyReport report = verify(model, GetParam(), batch(1, 3));
    EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
    EXPECT_LT(report.grad_max_rel, 1e-5);
    EXPECT_EQ(report.loss_max_rel, 0);
  }
}

TEST_F(Verify, EveryStageOfZeroHasTheBitsOfDdp) {
  for (const char* model : {kVerifyGpt2, kVerifyLlama})
    for (const int zero : {1, 2, 3})
      for (const int ranks : {2, 3, 4}) {
        const VerifyReport report =
            verify(model, {1, ranks, zero}, batch(2, 1), "dp=" + std::to_string(ranks));
        EXPECT_TRUE(report.bitwise) << to_text(report);
        EXPECT_EQ(report.verdict, Verdict::Equal);
      }
  // ZeRO-1 sums micro-batches first, as DDP does; 2 and 3 sum ranks first.
  EXPECT_TRUE(verify(kVerifyGpt2, {1, 4, 1}, batch(1, 3), "dp=4").bitwise);
  EXPECT_FALSE(verify(kVerifyGpt2, {1, 4, 2}, batch(1, 3), "dp=4").bitwise);
}

TEST_F(Verify, ABatchThatDoesNotDivideEqualsOneRank) {
  for (const ShardLayout& layout : {ShardLayout{3, 1, 0}, {1, 3, 1}, {1, 3, 2}, {1, 3, 3}})
    for (const char* accumulation : {"1", "2"}) {
      const VerifyReport report =
          verify(kVerifyLlama, layout,
                 {"batch.global=8", std::string("batch.accumulation=") + accumulation});
      EXPECT_NE(report.verdict, Verdict::Bug) << to_text(report);
      EXPECT_LT(report.grad_max_rel, 1e-5);
    }
}

TEST_F(Verify, FindsABucketThatWasDropped) {
  for (const ShardLayout& layout :
       {ShardLayout{4, 1, 0}, {1, 4, 1}, {1, 4, 2}, {1, 4, 3}, {2, 2, 2}}) {
    const VerifyReport report =
        verify(kVerifyLlama, layout,
               {"fault.inject=drop_bucket:group=1", "batch.micro=1", "optim.clip=0"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.0.")) << to_text(report);
  }
}

TEST_F(Verify, FindsAShardThatWasScaled) {
  for (const int zero : {1, 2, 3}) {
    const VerifyReport report = verify(
        kVerifyLlama, {1, 4, zero}, {"fault.inject=scale_shard:rank=3,group=2", "batch.micro=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.1.")) << to_text(report);
  }
}

TEST_F(Verify, FindsWeightsThatWereNotGathered) {
  for (const int zero : {1, 2}) {
    const VerifyReport report = verify(
        kVerifyLlama, {1, 2, zero}, {"fault.inject=skip_gather:group=2,step=2", "batch.micro=1"});
    EXPECT_EQ(report.verdict, Verdict::Bug);
    EXPECT_TRUE(is_of(names_of_bugs(report), "layers.1.")) << to_text(report);
    EXPECT_NE(report.tensors[12].problem.find("step 2: the copy on rank"), std::string::npos)
        << to_text(report);
  }
  const VerifyReport report =
      verify(kVerifyLlama, {1, 2, 3}, {"fault.inject=skip_gather:group=2", "batch.micro=1"});
  EXPECT_EQ(report.verdict, Verdict::Bug);
}

// The problems other than of tensors.
std::string problems(const VerifyReport& report) {
  return join(report.problems, "\n");
}

TEST_F(Verify, FindsSamplesThatAreNotThoseOfTheDataPlan) {
  EXPECT_EQ(
      problems(verify(kVerifyLlama, {2, 1, 0}, {"fault.inject=same_samples", "batch.micro=2"})),
      "step 1, rank 1, micro-batch 0: read samples 0 to 1, the data plan gives it samples 2 "
      "to 3");
  EXPECT_EQ(problems(verify(kVerifyLlama, {1, 2, 3},
                            {"fault.inject=shifted_samples:rank=1,step=2", "batch.micro=1"})),
            "step 2, rank 1, micro-batch 0: read sample 4, the data plan gives it sample 3");
}

TEST_F(Verify, FindsAWaitThatIsMissingWhateverWasRead) {
  if (kReportsRaces) GTEST_SKIP() << "the fault is a data race";
  for (const int zero : {1, 2}) {
    const VerifyReport report =
        verify(kVerifyLlama, {1, 2, zero}, {"fault.inject=no_await:group=1", "batch.micro=1"});
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
      const VerifyReport report = verify(kVerifyLlama, {1, 2, zero},
                                         {std::string("fault.inject=") + fault, "batch.micro=1",
                                          "optim.warmup=2000", "train.steps=10000"});
      EXPECT_EQ(report.verdict, Verdict::Bug) << fault;
      EXPECT_TRUE(is_of(names_of_bugs(report), "")) << fault;
      EXPECT_GT(report.update_max_rel, 1e-3) << fault;
    }
}

TEST_F(Verify, DropoutOfNearlyAllIsNoBug) {
  for (const char* model : {kVerifyGpt2, kVerifyLlama}) {
    const VerifyReport report =
        verify(model, {1, 1, 0},
               {"parallel.tp=2", "model.dropout=0.99", "batch.micro=2", "model.init_std=1"});
    EXPECT_EQ(report.verdict, Verdict::Rounding) << to_text(report);
  }
}

TEST_F(Verify, RunsFreeWithTheSameBitsWhereAllSumsAreTheSame) {
  const VerifyReport report = verify(kVerifyLlama, {4, 1, 0}, batch(1, 1));
  EXPECT_TRUE(report.ran_free && report.bitwise);
  EXPECT_EQ(report.free_max_rel, 0);
  const VerifyReport rounded = verify(kVerifyLlama, {2, 1, 0}, batch(1, 3));
  EXPECT_TRUE(rounded.ran_free && !rounded.bitwise);
  EXPECT_GT(rounded.free_max_rel, 0);
  EXPECT_LT(rounded.free_max_rel, 1e-3);
}

TEST_F(Verify, EndsAtTheFirstStepThatIsNotFiniteInBoth) {
  const std::vector<std::string> settings = {"parallel.dp=2", "batch.micro=1", "optim.lr=1000",
                                             "optim.schedule=constant", "optim.weight_decay=100"};
  const Config config = parse_config(kVerifyLlama, "test", settings).config;
  const VerifyReport report = verify_layout(config, {5, ""}, {disk_, clock_, log_, stop_});
  EXPECT_EQ(report.verdict, Verdict::Equal) << to_text(report);
  EXPECT_NE(report.end.find("step 4: the gradient norm is"), std::string::npos) << report.end;
  EXPECT_EQ(report.steps, 3);
}

TEST_F(Verify, ComparesAtLeastThreeStepsUnlessToldOtherwise) {
  const auto steps_of = [&](const char* steps) {
    const std::vector<std::string> settings = {"batch.micro=1",
                                               std::string("train.steps=") + steps};
    const Config config = parse_config(kVerifyLlama, "test", settings).config;
    return verify_layout(config, {}, {disk_, clock_, log_, stop_}).steps;
  };
  EXPECT_EQ(steps_of("1"), 3);
  EXPECT_EQ(steps_of("4"), 4);
  EXPECT_EQ(steps_of("100"), 5);
}

TEST_F(Verify, TheLimitOfARankIsNotThatOfTheReference) {
  std::vector<std::string> overrides = batch(1, 1);
  overrides.insert(overrides.end(), {"parallel.shard=4", "parallel.zero=3", "run.threads=1"});
  const Preflight flight = preflight(parse_config(kVerifyLlama, "test", overrides).config, 0);
  overrides = batch(1, 1);
  overrides.insert(overrides.end(),
                   {"run.threads=1", "run.memory_limit=" + std::to_string(flight.memory[0].peak)});
  EXPECT_NE(verify(kVerifyLlama, {1, 4, 3}, overrides).verdict, Verdict::Bug);
}

TEST_F(Verify, RefusesAReferenceThatCannotBe) {
  const auto against = [&](const std::string& text) {
    return verify(kVerifyLlama, {4, 1, 0}, batch(1, 1), text);
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

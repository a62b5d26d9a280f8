// verify in bf16, fp16 and fp8.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/verify_test.h"

namespace sextant {
namespace {

// In a narrow type a layout is judged by its error against fp64, beside that of one rank.
TEST_F(Verify, JudgesNarrowTypesByTheirError) {
  for (const char* compute : {"precision.compute=bf16", "precision.compute=fp16"})
    for (const ShardLayout& layout : {ShardLayout{2, 1, 0}, {1, 2, 2}, {1, 2, 3}}) {
      // The default loss scale of fp16 overflows at first: both sides skip the same steps.
      const VerifyReport right =
          verify(kVerifyLlama, layout, {compute, "batch.micro=1", "batch.accumulation=2"});
      EXPECT_NE(right.verdict, Verdict::Bug) << compute << "\n" << to_text(right);
      const VerifyReport wrong =
          verify(kVerifyLlama, layout,
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
    for (const ShardLayout& layout : {ShardLayout{2, 1, 0}, {1, 2, 3}, {1, 1, 0}}) {
      if (layout.ranks() == 1) settings.push_back("parallel.tp=2");
      settings.insert(settings.end(), {"batch.micro=1", "batch.accumulation=2"});
      const VerifyReport report = verify(kVerifyLlama, layout, settings);
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
  const VerifyReport wide = verify(kVerifyLlama, {2, 1, 0}, batch(1, 2));
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
    for (const ShardLayout& layout : {ShardLayout{2, 1, 0}, {1, 2, 3}, {1, 1, 0}}) {
      if (layout.ranks() == 1) settings.push_back("parallel.tp=2");
      settings.insert(settings.end(), {"batch.micro=1", "batch.accumulation=2",
                                       "fault.inject=narrow_statistics:rank=1"});
      const VerifyReport report = verify(kVerifyLlama, layout, settings);
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
    for (const auto& [fault, layout] : {std::pair{"lost_decay", ShardLayout{1, 2, 1}},
                                        {"decayed_vectors", {2, 1, 0}},
                                        {"early_rate:rank=1", {2, 1, 0}}}) {
      const VerifyReport report =
          verify(kVerifyLlama, layout,
                 {std::string("precision.compute=") + compute, "precision.initial_loss_scale=1024",
                  "batch.micro=1", "optim.warmup=2000", "train.steps=10000",
                  std::string("fault.inject=") + fault});
      EXPECT_EQ(report.verdict, Verdict::Bug) << compute << " " << fault;
      EXPECT_FALSE(names_of_bugs(report).empty()) << compute << " " << fault;
    }
}

}  // namespace
}  // namespace sextant

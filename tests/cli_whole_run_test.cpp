// What `sextant simulate run.toml --cluster` promises to scripts.
#include "support/cli.h"

namespace sextant {
namespace {

class CliWholeRun : public CliTest {
 protected:
  void SetUp() override {
    write("run.toml",
          "schema = 1\n[model]\npreset = \"llama-405b\"\nseq = 8192\n"
          "[batch]\nglobal = 2048\nmicro = 1\n"
          "[parallel]\ntp = 8\nsequence = true\npp = 16\nshard = 128\nzero = 1\n"
          "[precision]\ncompute = \"bf16\"\n");
  }
  nlohmann::json of(const Arguments& more) {
    return json(Arguments{"simulate", "run.toml", "--cluster", "16384xH100"} + more);
  }
};

TEST_F(CliWholeRun, SaysGoodputTimeAndCostOfATokenBudget) {
  const nlohmann::json run = of({"--tokens", "1T", "--price", "2"});
  EXPECT_EQ(run["steps"], 59605);  // of 2048 * 8192 tokens, rounded up
  EXPECT_GT(run["goodput"], 0.9);
  EXPECT_LT(run["goodput"], 0.95);
  double all = 0;
  for (const auto& [name, seconds] : run["terms"].items()) all += seconds.get<double>();
  EXPECT_NEAR(all / run["seconds"].get<double>(), 1, 1e-6);
  EXPECT_NEAR(run["terms"]["work"].get<double>(), 59605 * run["step_s"].get<double>(), 1);
  EXPECT_NEAR(run["cost"].get<double>(), 2 * run["gpu_hours"].get<double>(), 1);
  EXPECT_NEAR(run["between_s"].get<double>() / 3600, 3.09, 0.01);
  EXPECT_EQ(run["components"].size(), 18);
  // 405.9B parameters of 14 bytes at 1 GB/s on each of 2,048 nodes.
  EXPECT_NEAR(run["checkpoint"]["cost_s"].get<double>(), 2.77, 0.01);
  EXPECT_NEAR(run["checkpoint"]["best_s"].get<double>() / run["checkpoint"]["daly_s"].get<double>(),
              1, 0.3);
}

TEST_F(CliWholeRun, WorseHardwareGivesLessGoodput) {
  const Arguments budget = {"--tokens", "300B"};
  const double plain = of(budget)["goodput"];
  EXPECT_LT(of(budget + Arguments{"--interruptions", "2"})["goodput"], plain);
  EXPECT_LT(of(budget + Arguments{"--restart", "3600"})["goodput"], plain);
  EXPECT_LT(of(budget + Arguments{"--checkpoint-cost", "60"})["goodput"], plain);
  EXPECT_LT(of(budget + Arguments{"--checkpoint-interval", "10000"})["goodput"], plain);
  EXPECT_LT(of(budget + Arguments{"--stragglers", "1%x1.2"})["goodput"], plain);
  EXPECT_EQ(of(budget + Arguments{"--interruptions", "0"})["interruptions"], 0);
}

TEST_F(CliWholeRun, TheFlowLevelHasEveryRankAndLink) {
  const nlohmann::json run = of({"--flow"});
  const nlohmann::json& flow = run["flow"];
  EXPECT_EQ(run["step_s"], flow["step_s"]);
  EXPECT_EQ(flow["ranks"], 16384);
  EXPECT_EQ(flow["links"], 4 * 16384);
  EXPECT_LT(flow["classes"]["ranks"], 16384);
  // The last backwards of all stages run one after another, each beside its reduction of gradients.
  // The planner counts what one of them loses.
  EXPECT_NEAR(flow["step_s"].get<double>() / flow["planned_s"].get<double>(), 1.15, 0.15);
  const nlohmann::json alone =
      json({"simulate", "run.toml", "--cluster", "128xH100", "--flow", "--parallel.shard=1",
            "--parallel.zero=0", "--batch.global=16"})["flow"];
  EXPECT_NEAR(alone["step_s"].get<double>() / alone["planned_s"].get<double>(), 1, 1e-3);
  ASSERT_EQ(flow["levels"].size(), 2);
  for (const auto& level : flow["levels"]) EXPECT_LE(level["mean"], level["most"]);
  const nlohmann::json slow = of({"--flow", "--slow-rank", "9000x2"})["flow"];  // of a middle stage
  EXPECT_GT(slow["step_s"], 1.1 * flow["step_s"].get<double>());
  const Arguments plain = {"simulate", "run.toml", "--cluster", "16384xH100"};
  refused(plain + Arguments{"--slow-rank", "17x2"}, 2, {"--slow-rank 17x2", "--flow"});
  refused(plain + Arguments{"--flow", "--slow-rank", "17"}, 2, {"--slow-rank 17", "17x1.5"});
  refused(plain + Arguments{"--flow", "--slow-link", "16384x2"}, 2, {"16384", "16383"});
  refused({"simulate", "--flow"}, 2, {"--flow", "--cluster"});
}

TEST_F(CliWholeRun, RefusesWhatDoesNotBelongTogether) {
  const Arguments run = {"simulate", "run.toml", "--cluster", "16384xH100"};
  refused({"simulate", "run.toml", "--cluster", "64xH100"}, 2, {"16384 ranks", "64 GPUs"});
  refused({"simulate", "--cluster", "64xH100"}, 2, {"run.toml"});
  refused({"simulate", "--tokens", "1T"}, 2, {"--cluster"});
  refused(run + Arguments{"--tokens", "0"}, 2, {"--tokens 0", "15.6T"});
  refused(run + Arguments{"--stragglers", "2"}, 2, {"--stragglers 2", "0.1%x1.2"});
  refused(run + Arguments{"--stragglers", "0.1x0.5"}, 2, {"from 1"});
  refused(run + Arguments{"--checkpoint-interval", "0"}, 2, {"above 0"});
  refused(run + Arguments{"--flops", "1e12"}, 2, {"--flops"});
  refused(run + Arguments{"--interruptions", "1e5"}, 2, {"does not end"});
}

}  // namespace
}  // namespace sextant

// Commands that read the hardware file of a machine. Costs are made up; nothing is timed.
#include <fstream>

#include "support/cli.h"

namespace sextant {
namespace {

constexpr const char* kMachine = R"(schema = 1
name = "box"
generation = "cpu"
[gpu]
bf16 = 0.1
fp32 = 0.1
memory_gb = 4
memory_tb_s = 0.01
power_w = 1
[node]
gpus = 2
domain = 2
link_gb_s = 5
[network]
nic_gb_s = 5
[cpu]
cores = 2
[copy-f32-1]
us = 1
gflops = 50
read_gb_s = 8
write_gb_s = 8
[all_reduce-f32-2-own]
us = 10
send_gb_s = 2
)";
const Arguments kRun = {"--model.preset=tiny", "--batch.global=4", "--batch.micro=1",
                        "--run.threads=1"};

class CliMachine : public CliTest {
 protected:
  CliMachine() { std::ofstream(dir_ / "box.toml") << kMachine; }
  double step(const Arguments& more) {
    return json(Arguments{"simulate", "--hardware", "box.toml"} + kRun + more)["step_s"];
  }
};

TEST_F(CliMachine, SimulateSharesTheCoresAmongTheRanks) {
  const nlohmann::json got =
      json(Arguments{"simulate", "--hardware", "box.toml", "--parallel.dp=2"} + kRun);
  EXPECT_EQ(got["rates"]["hardware"], "box");
  EXPECT_EQ(got["rates"]["cores"], 2);
  EXPECT_FALSE(got["rates"]["assumed"].empty());
  EXPECT_GT(got["mfu"], 0);
  const double one = step({}), two = step({"--parallel.dp=2"}), four = step({"--parallel.dp=4"});
  EXPECT_LT(two, 0.7 * one);   // half of the micro-batches on each of two cores
  EXPECT_GT(four, 0.9 * two);  // four ranks have two cores as well
}

TEST_F(CliMachine, TrainComparesItsStepsAndWritesARowThatEvaluateReads) {
  const nlohmann::json got = json(Arguments{"train", "--hardware", "box.toml", "--train.steps=3",
                                            "--run.out=out", "--parallel.dp=2"} +
                                  kRun);
  const nlohmann::json& compared = got["compared"];
  EXPECT_EQ(compared["source"], "box.toml");
  EXPECT_EQ(compared["steps"], 2);
  EXPECT_GT(compared["predicted_s"], 0);
  EXPECT_GT(compared["measured_s"], 0);
  EXPECT_EQ(compared["predicted_peak"], compared["measured_peak"]);
  EXPECT_DOUBLE_EQ(
      compared["predicted_s"],
      json(Arguments{"simulate", "--hardware", "box.toml", "--parallel.dp=2"} + kRun)["step_s"]);
  const nlohmann::json row = json({"plan", "evaluate", "--runs", "out/run.csv"})["rows"][0];
  EXPECT_EQ(row["id"], "out");
  EXPECT_GT(row["step_s"], 0);
}

TEST_F(CliMachine, TheComparisonIsALineOfTheLog) {
  const Ran ran = run(Arguments{"train", "--hardware", "box.toml", "--train.steps=12"} + kRun);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("measured (median of 10)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("predicted from box.toml"), std::string::npos) << ran.err;
}

TEST_F(CliMachine, ThePlannerTimesItsBestPlansByTheirTraces) {
  const nlohmann::json got = json({"plan", "--model", "tiny", "--cluster", "2xbox.toml", "--batch",
                                   "16", "--precision", "fp32"});
  double before = 0;
  for (size_t i = 0; i < std::min<size_t>(5, got["plans"].size()); ++i) {
    ASSERT_FALSE(got["plans"][i]["exact_s"].is_null());
    EXPECT_GE(got["plans"][i]["exact_s"], before);
    before = got["plans"][i]["exact_s"];
  }
  EXPECT_GT(before, 0);
}

TEST_F(CliMachine, RefusesFilesWithoutCosts) {
  std::ofstream(dir_ / "bare.toml") << "schema = 1\nname = \"bare\"\n";
  const auto refused = [&](const Arguments& arguments, const std::string& why) {
    const Ran ran = run(arguments + kRun);
    EXPECT_EQ(ran.code, 2);
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
  };
  refused({"simulate", "--hardware", "bare.toml"}, "has no measured costs of operations");
  refused({"simulate", "--hardware", "box.toml", "--flops", "1e9"}, "leave out --flops 1e9");
  refused({"train", "--hardware", "abacus"}, "no GPU is called 'abacus'");
  EXPECT_EQ(run({"bench", "calibrate", "--report", "x.md"}).code, 2);
  EXPECT_EQ(run({"bench", "calibrate", "--steps", "0"}).code, 2);
}

}  // namespace
}  // namespace sextant

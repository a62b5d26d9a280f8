// A run's trace beside the simulation of its schedule, as users meet it.
#include "support/cli.h"

namespace sextant {
namespace {

class CliCompare : public CliTest {
 protected:
  // Two ranks, four layers, three micro-batches a step.
  static Arguments pipeline(const std::string& schedule) {
    return {"--model.layers=4",    "--model.hidden=32",
            "--model.heads=2",     "--model.vocab=128",
            "--model.seq=16",      "--batch.global=3",
            "--batch.micro=1",     "--data.kind=synthetic",
            "--parallel.pp=2",     "--parallel.schedule=" + schedule,
            "--run.threads=1",     "--run.trace=true",
            "--run.peak_flops=1e9"};
  }
  void train(const std::string& schedule, const std::string& out, const Arguments& more = {}) {
    const Ran ran =
        run(Arguments{"train", "--run.out=" + out, "--train.steps=4"} + pipeline(schedule) + more);
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  static Arguments compare(const std::string& schedule, const std::string& trace) {
    return Arguments{"simulate", "--compare", trace} + pipeline(schedule);
  }
};

TEST_F(CliCompare, PutsARunBesideItsSimulation) {
  train("zb-h1", "out", {"--train.eval_every=2"});
  const nlohmann::json all =
      json(compare("zb-h1", "out/trace.json") + Arguments{"--svg", "both.svg"});
  const nlohmann::json& got = all["compare"];
  EXPECT_EQ(got["steps"], 4);  // evaluations are none
  EXPECT_EQ(got["skipped"], 1);
  EXPECT_EQ(got["order_equal"], true);
  EXPECT_EQ(got["times"]["stages"].size(), 2u);
  EXPECT_GT(got["step_s"]["measured"], 0.0);
  EXPECT_EQ(got["step_s"]["simulated"], all["makespan"]);
  EXPECT_EQ(got["idle"]["measured"].size(), 2u);
  EXPECT_EQ(got["differences"].size(), 5u);
  EXPECT_EQ(all["order"][1], "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  const std::string svg = read("both.svg");
  EXPECT_NE(svg.find("measured above simulated"), std::string::npos);
  // The run's directory does as well.
  const std::string text = run(compare("zb-h1", "out")).out;
  for (const char* part :
       {"zb-h1: 4 steps in out; medians of steps 2 to 4", "order        as the schedule says",
        "ratio ", "points, of rank ", "largest differences, in step ", " on rank "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(CliCompare, TakesTheFirstOfSeveralPipelines) {
  const Arguments two = {"--parallel.dp=2", "--batch.global=6"};
  train("1f1b", "out", two);
  const nlohmann::json got = json(compare("1f1b", "out") + two)["compare"];
  EXPECT_EQ(got["pipelines"], 2);
  EXPECT_EQ(got["order_equal"], true);
  EXPECT_NE(run(compare("1f1b", "out") + two).out.find("the first of 2 pipelines"),
            std::string::npos);
}

TEST_F(CliCompare, SaysWhereTheOrderDiffers) {
  train("gpipe", "out");
  const nlohmann::json got = json(compare("1f1b", "out"))["compare"];
  EXPECT_EQ(got["order_equal"], false);
  EXPECT_EQ(got["order_difference"]["rank"], 0);
  EXPECT_EQ(got["order_difference"]["place"], 2);
  EXPECT_EQ(got["order_difference"]["measured"], "F of stage 0, micro 2");
  EXPECT_EQ(got["order_difference"]["schedule"], "B of stage 0, micro 0");
}

TEST_F(CliCompare, RefusesABrokenTraceInOneLine) {
  train("1f1b", "out");
  const std::string whole = read("out/trace.json");
  write("cut.json", whole.substr(0, whole.size() / 3));
  refused(compare("1f1b", "cut.json"), 4, {"cut.json: not valid JSON"});
  write("empty.json", "{\"traceEvents\":[]}");
  refused(compare("1f1b", "empty.json"), 4, {"empty.json has no action of rank 0"});
  write("list.json", "[]");
  refused(compare("1f1b", "list.json"), 4, {"list.json is no Chrome trace"});
  refused(compare("zb-h1", "out"), 4, {"which zb-h1 has not"});
  refused(compare("1f1b", "out") + Arguments{"--batch.global=5"}, 4, {"never did"});
  refused(compare("1f1b", "nowhere"), 4, {"nowhere"});
  write("bare/other.txt", "");
  refused(compare("1f1b", "bare"), 4, {"bare has no trace.json"});
  refused({"simulate", "--compare", "out"}, 2, {"needs the configuration of the run"});
  refused(compare("1f1b", "out") + Arguments{"--times", "1,1,1"}, 2, {"leave out --times 1,1,1"});
}

TEST_F(CliCompare, WithoutATraceSimulatesTheRunsOwnSchedule) {
  const nlohmann::json estimated = json(Arguments{"simulate"} + pipeline("1f1b"));
  EXPECT_EQ(estimated["stages"], 2);
  EXPECT_EQ(estimated["micros"], 3);
  EXPECT_GT(estimated["work"][1], estimated["work"][0]);  // the head
  const nlohmann::json given = json(Arguments{"simulate", "--times", "1,1,1"} + pipeline("1f1b"));
  EXPECT_EQ(given["makespan"], 12);
  EXPECT_FALSE(given.contains("compare"));
  refused(Arguments{"simulate", "--stages", "4"} + pipeline("1f1b"), 2, {"leave out --stages 4"});
}

TEST_F(CliCompare, BenchPipelineHasARowForEachSchedule) {
  const nlohmann::json got =
      json({"bench", "pipeline", "--ranks", "2", "--layers", "2", "--hidden", "64", "--seq", "16",
            "--steps", "2", "--rounds", "2", "--schedules", "1f1b,zb-v"});
  ASSERT_EQ(got["rows"].size(), 2u);
  for (const nlohmann::json& row : got["rows"]) {
    EXPECT_EQ(row["unit"], "ms");
    EXPECT_GT(row["value"], 0.0);
    EXPECT_DOUBLE_EQ(row["ratio"], row["value"].get<double>() / row["limit"].get<double>());
    EXPECT_EQ(row["order_equal"], true);
    EXPECT_GT(row["step_ratio"], 0.0);
    EXPECT_EQ(row["steps"], 4);
  }
  EXPECT_EQ(got["rows"][1]["name"], "zb-v");
  EXPECT_TRUE(got["same_order"].is_boolean());
  refused({"bench", "pipeline", "--schedules", "zb-h3"}, 2, {"there is no schedule 'zb-h3'"});
  refused({"bench", "pipeline", "--ranks", "1"}, 2, {"at least 2 ranks"});
}

}  // namespace
}  // namespace sextant

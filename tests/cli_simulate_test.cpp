// What `sextant simulate` promises to scripts.
#include <cmath>

#include "support/cli.h"

namespace sextant {
namespace {

class CliSimulate : public CliTest {
 protected:
  nlohmann::json of(const std::string& schedule, const Arguments& more = {}) {
    return json(Arguments{"simulate", "--schedule", schedule} + more);
  }
};

TEST_F(CliSimulate, GivesTheKnownFiguresOfEverySchedule) {
  struct Known {
    const char* schedule;
    Arguments more;
    double makespan;
    std::vector<double> idle;
    std::vector<int> peak;
  };
  const Arguments four = {"--stages", "4", "--micros", "8"}, chunks = {"--chunks", "2"};
  const Known all[] = {
      {"gpipe", four, 33, {9, 6, 3, 0}, {8, 8, 8, 8}},
      {"1f1b", four, 33, {9, 6, 3, 0}, {4, 3, 2, 1}},
      {"interleaved", four + chunks, 57, {9, 6, 3, 0}, {11, 9, 7, 5}},
      {"looped-bfs", four + chunks, 57, {9, 6, 3, 0}, {16, 16, 16, 16}},
      {"interleaved-zb", four + chunks, 51, {3, 2, 1, 0}, {8, 8, 8, 8}},
      {"zb-h1", four, 27, {3, 2, 1, 0}, {4, 4, 4, 4}},
      {"zb-h2", four, 27, {0, 0, 0, 0}, {7, 7, 7, 7}},
      {"zb-v", four + chunks, 51, {0, 0, 0, 0}, {8, 8, 8, 8}},
      {"v-half", four, 53, {5, 3, 3, 2}, {6, 6, 6, 6}},
      {"v-min", four, 59, {11, 9, 7, 6}, {4, 4, 4, 4}},
      {"dualpipe", four, 25, {1, 0, 0, 1}, {5, 5, 5, 5}},
      {"dualpipe",
       {"--stages", "8", "--micros", "20", "--overlap", "3"},
       66,
       {6, 5, 4, 3, 3, 4, 5, 6},
       {9, 9, 9, 9, 9, 9, 9, 9}},
      {"dualpipe-v", {"--micros", "10"}, 63, {3, 2, 1, 0}, {9, 9, 9, 9}},
      {"dualpipe-v", {"--micros", "10", "--overlap", "3"}, 66, {6, 5, 4, 3}, {9, 9, 9, 9}},
  };
  for (const Known& known : all) {
    const nlohmann::json got = of(known.schedule, known.more);
    EXPECT_EQ(got["makespan"], known.makespan) << known.schedule;
    EXPECT_EQ(got["idle"], known.idle) << known.schedule;
    EXPECT_EQ(got["peak"], known.peak) << known.schedule;
    EXPECT_EQ(got["span_bubble"], *std::max_element(known.idle.begin(), known.idle.end()));
    EXPECT_EQ(got["order"].size(), known.idle.size());
  }
}

TEST_F(CliSimulate, CountsTheBubbleAgainstTheTimeAndAgainstTheWork) {
  const nlohmann::json plain = of("1f1b", {"--stages", "4", "--micros", "8"});
  EXPECT_DOUBLE_EQ(plain["bubble_fraction"], 3.0 / 11);
  EXPECT_DOUBLE_EQ(plain["bubble_overhead"], 3.0 / 8);
  EXPECT_DOUBLE_EQ(plain["bubble_formula"], 3.0 / 11);
  EXPECT_EQ(plain["order"][3], "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
  EXPECT_DOUBLE_EQ(of("interleaved", {"--micros", "8", "--chunks", "2"})["bubble_overhead"],
                   3.0 / 16);
  EXPECT_DOUBLE_EQ(of("1f1b", {"--micros", "1", "--stages", "8"})["utilisation"], 1.0 / 8);
  EXPECT_EQ(of("zb-h1", {"--times", "10,12,8"})["span_bubble"], 42);
  EXPECT_EQ(of("zb-v", {"--stages", "2", "--micros", "4"})["order"][0],
            "F0 F1 F2 f0 b0 w0 f1 b1 w1 F3 B0 W0 f2 b2 w2 B1 W1 f3 b3 w3 B2 W2 B3 W3");
}

TEST_F(CliSimulate, FindsTheMicroBatchesForATarget) {
  const auto micros = [&](const char* stages, const char* target) {
    return of("1f1b", {"--stages", stages, "--target-bubble", target})["micros"];
  };
  EXPECT_EQ(micros("8", "5%"), 133);
  EXPECT_EQ(micros("4", "10%"), 27);
  EXPECT_EQ(micros("4", "0.01"), 297);
  const std::string text =
      run({"simulate", "--stages", "8", "--target-bubble", "5%", "--width", "60"}).out;
  EXPECT_TRUE(text.starts_with("133 micro-batches for a bubble of at most 5 %\n")) << text;
  EXPECT_EQ(of("dualpipe", {"--target-bubble", "3%"})["micros"], 12);
}

TEST_F(CliSimulate, ShowsTheTimelineAndTheNumbers) {
  const std::string text =
      run({"simulate", "--stages", "2", "--micros", "3", "--memory", "3MiB,1MiB"}).out;
  for (const char* part :
       {"1f1b: 2 ranks, 3 micro-batches", "rank 0  F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2\n",
        "rank 1  .. F0 B0 B0 F1 B1 B1 F2 B2 B2\n", "6.0 MiB", "makespan     12\n",
        "25.00 % of the makespan, 33.33 % over the work (formula for equal stages: 25.00 %)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(CliSimulate, UnequalStagesAndMessagesCostMoreThanTheFormula) {
  const nlohmann::json uneven =
      of("1f1b", {"--stages", "2", "--micros", "8", "--times", "1,1,1/2,2,2"});
  EXPECT_DOUBLE_EQ(uneven["bubble_formula"], 1.0 / 9);
  EXPECT_GT(uneven["bubble_fraction"], uneven["bubble_formula"]);
  EXPECT_FALSE(of("zb-h1").contains("bubble_formula"));
  const nlohmann::json sent = of("1f1b", {"--comm", "0.5"});
  EXPECT_GT(sent["bubble_fraction"], sent["bubble_formula"]);
  EXPECT_GT(of("1f1b", {"--comm", "0.5", "--wire", "2"})["makespan"], sent["makespan"]);
}

TEST_F(CliSimulate, WritesPicturesTracesAndSchedulesThatItReadsAgain) {
  const nlohmann::json made = of("zb-v", {"--micros", "7", "--svg", "out/a.svg", "--trace",
                                          "out/a.json", "--csv", "out/a.csv"});
  EXPECT_TRUE(read("out/a.svg").starts_with("<svg "));
  const nlohmann::json trace = nlohmann::json::parse(read("out/a.json"));
  EXPECT_EQ(trace["traceEvents"].size(), 4 * 2 + 4 * 2 * 7 * 3u);
  const nlohmann::json again = json({"simulate", "--from", "out/a.csv"});
  for (const char* key : {"makespan", "idle", "peak", "order"}) EXPECT_EQ(again[key], made[key]);
  refused({"simulate", "--from", "out/a.csv", "--memory-limit", "7"}, 2, {"memory limit 7"});
}

TEST_F(CliSimulate, RefusesWhatCannotBeInOneLine) {
  const auto refuse = [&](const Arguments& more, const std::vector<std::string>& parts,
                          int code = 2) { refused(Arguments{"simulate"} + more, code, parts); };
  refuse({"--schedule", "zb-h3"}, {"zb-h3", "did you mean 'zb-h"});
  refuse({"--stages", "0"}, {"--stages 0: takes a whole number from 1"});
  refuse({"--micros", "3000000000"}, {"--micros 3000000000", "2147483647"});
  refuse({"--times", "1,1"}, {"--times 1,1", "F, B and W"});
  refuse({"--times", "1,1,1/2,2,2"}, {"2 stages", "4"});
  refuse({"--times", "1,-1,1"}, {"--times -1"});
  refuse({"--comm", "inf"}, {"--comm inf"});
  refuse({"--overlap", "x"}, {"--overlap x"});
  refuse({"--memory", "1MiB"}, {"--memory 1MiB", "34MiB,32MiB"});
  refuse({"--memory-limit", "-1"}, {"--memory-limit -1"});
  refuse({"--schedule", "gpipe", "--memory-limit", "7"}, {"memory limit 7"});
  refuse({"--target-bubble", "100%"}, {"--target-bubble 100%", "5%"});
  refuse({"--target-bubble", "5%", "--micros", "8"}, {"leave out --micros 8"});
  refuse({"--target-bubble", "0%"}, {"no number of micro-batches up to"});
  refuse({"--schedule", "dualpipe", "--stages", "3", "--target-bubble", "5%"}, {"even"});
  refuse({"--schedule", "interleaved", "--chunks", "2", "--micros", "7"}, {"groups of 7"});
  refuse({"--from", "none.csv"}, {"none.csv"}, 4);
  write("bad.csv", "name=x,stages=1,micros=1,placement=loop\n0B0,0F0\n");
  refuse({"--from", "bad.csv"}, {"x"});
  refuse({"--from", "bad.csv", "--stages", "4"}, {"leave out --stages 4"});
}

class CliSimulateRun : public CliTest {
 protected:
  // Two stages of two replicas that share their parameters.
  const Arguments run_ = {"--model.layers=4",     "--model.hidden=32",     "--model.heads=2",
                          "--model.vocab=256",    "--model.seq=16",        "--batch.global=8",
                          "--batch.micro=1",      "--data.kind=synthetic", "--parallel.pp=2",
                          "--parallel.shard=2",   "--parallel.zero=3",     "--run.threads=1",
                          "--run.peak_flops=1e12"};
  static Arguments rates(const std::string& flops, const std::string& link,
                         const std::string& launch) {
    return {"--flops", flops, "--bandwidth", "1e12", "--link", link, "--launch", launch};
  }
  nlohmann::json simulated(const Arguments& more) {
    return json(Arguments{"simulate"} + run_ + more);
  }
};

TEST_F(CliSimulateRun, MemoryIsThatOfTheDryRun) {
  const nlohmann::json planned = json(Arguments{"train", "--dry-run"} + run_)["memory"];
  const nlohmann::json got = simulated({"--times", "1,1,1"})["memory"];
  ASSERT_EQ(got.size(), 4u);
  for (size_t rank = 0; rank < got.size(); ++rank)
    for (const char* field : {"rank", "peak", "reserved", "categories"})
      EXPECT_EQ(got[rank][field], planned[rank][field]) << rank << " " << field;
}

TEST_F(CliSimulateRun, StepTimeFollowsTheRates) {
  const nlohmann::json plain = simulated(rates("1e9", "1e9", "0"));
  const double step = plain["step_s"];
  EXPECT_GT(step, 0);
  EXPECT_EQ(plain["rates"]["measured"], false);
  EXPECT_EQ(plain["rates"]["link"], 1e9);
  EXPECT_EQ(plain["rates"]["peak_flops"], 1e12);
  EXPECT_FALSE(plain.contains("goodput"));
  int ranks = 0;
  for (const nlohmann::json& rank : plain["ranks"]) ranks += rank["alike"].get<int>();
  EXPECT_EQ(ranks, 4);
  // Arithmetic bounds it, so MFU goes with it.
  const nlohmann::json faster = simulated(rates("2e9", "1e9", "0"));
  EXPECT_LT(faster["step_s"], 0.7 * step);
  EXPECT_NEAR(faster["mfu"].get<double>() * faster["step_s"].get<double>(),
              plain["mfu"].get<double>() * step, 1e-9);
  EXPECT_GT(simulated(rates("1e9", "1MB", "0"))["step_s"], 2 * step);
  // Launches alone: whole numbers of them.
  const double launches =
      simulated({"--flops", "1e30", "--bandwidth", "1e30", "--launch", "1"})["step_s"];
  EXPECT_GT(launches, 100);
  EXPECT_NEAR(launches, std::round(launches), 1e-6);
}

TEST_F(CliSimulateRun, MeasuresWhatIsNotGiven) {
  const nlohmann::json got = simulated({});
  EXPECT_EQ(got["rates"]["measured"], true);
  EXPECT_GT(got["step_s"], 0);
  EXPECT_GT(got["rates"]["flops"], 0);
  const std::string text = run(Arguments{"simulate"} + run_).out;
  for (const char* part : {"step   ", "rates        of a rank: ", "measured", "exposed ms",
                           "memory     rank", "reserved"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(CliSimulateRun, WritesEveryOperationOfTheStep) {
  simulated(rates("1e9", "1e9", "0") + Arguments{"--trace", "step.json"});
  const std::string trace = read("step.json");
  for (const char* part : {"matmul (layer ", "all_gather ", "send activations send 1", "adamw"})
    EXPECT_NE(trace.find(part), std::string::npos) << part;
}

TEST_F(CliSimulateRun, RefusesRatesThatCannotBe) {
  refused(Arguments{"simulate", "--flops", "0"} + run_, 2,
          {"--flops 0: takes a number from 1 to 1e+100"});
  refused(Arguments{"simulate", "--link", "fast"} + run_, 2, {"--link fast"});
  refused(Arguments{"simulate", "--host", "0"} + run_, 2, {"--host 0"});
  refused(Arguments{"simulate", "--latency", "-1"} + run_, 2, {"--latency -1"});
  refused(Arguments{"simulate", "--latency", "1e308"} + run_, 2,
          {"takes a number from 0 to 1e+15"});
  refused(Arguments{"simulate", "--times", "1,1,1", "--flops", "1e9"} + run_, 2,
          {"--times gives all times, leave out --flops 1e9"});
  refused({"simulate", "--flops", "1e9"}, 2, {"leave out --flops 1e9"});
}

}  // namespace
}  // namespace sextant

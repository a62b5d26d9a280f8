// Pipelines from the command line: schedules by name and from a file.
#include "support/cli.h"

namespace sextant {
namespace {

class CliPipeline : public CliTest {
 protected:
  // Two blocks on two ranks, three micro-batches.
  static Arguments piped(const std::string& schedule) {
    return {"--model.layers=2",   "--batch.global=3", "--batch.micro=1",
            "--model.tied=false", "--parallel.pp=2",  "--parallel.schedule=" + schedule};
  }
  static Arguments train(const std::string& out, const std::string& schedule) {
    return Arguments{"train", "-q"} + tiny(out) + piped(schedule);
  }
  void expect_refused(const std::string& text, int code, const std::vector<std::string>& parts) {
    write("s.csv", text);
    refused(train("refused", "s.csv"), code, parts);
    EXPECT_FALSE(exists("refused"));
  }
};

TEST_F(CliPipeline, AScheduleFromAFileRunsAsTheNamedOneDoes) {
  for (const char* name : {"1f1b", "zb-h1"}) {
    ASSERT_EQ(
        run({"simulate", "--schedule", name, "--stages", "2", "--micros", "3", "--csv", "made.csv"})
            .code,
        0);
    const Ran named = run(train("named", name)), read = run(train("read", "made.csv"));
    EXPECT_EQ(named.code, 0) << named.err;
    EXPECT_EQ(read.code, 0) << read.err;
    EXPECT_EQ(results("read").size(), 4u);
    EXPECT_EQ(results("read"), results("named")) << name;
  }
}

// An order that no generator makes, weight halves late; messages in it are left to the run.
TEST_F(CliPipeline, AnyValidOrderHasTheBitsOfOneRank) {
  write("mine.csv",
        "name=mine,stages=2,micros=3,placement=loop\n"
        "0F0,0F1,0F2,0I0,0I1,0W0,0B2,0W1\n"
        "1F0,1F1,1I0,1F2,1B1,1I2,1W0,1W2\n");
  const nlohmann::json report = json(Arguments{"verify"} + tiny("v") + piped("mine.csv"));
  EXPECT_EQ(report["verdict"], "rounding");  // W0 comes behind B1: another order of sums
  write("mine.csv",
        "name=mine,stages=2,micros=3,placement=loop\n"
        "0F0,0F1,0F2,0I0,0I1,0W0,0W1,0B2\n"
        "1F0,1F1,1I0,1F2,1W0,1B1,1I2,1W2\n");
  EXPECT_EQ(json(Arguments{"verify"} + tiny("v") + piped("mine.csv"))["verdict"], "equal");
}

TEST_F(CliPipeline, AFileForOtherRanksOrMicroBatchesIsRefused) {
  expect_refused(
      "name=a,stages=3,micros=3,placement=loop\n0F0,0F1,0F2,0B0,0B1,0B2\n"
      "1F0,1F1,1F2,1B0,1B1,1B2\n2F0,2F1,2F2,2B0,2B1,2B2\n",
      2, {"s.csv is for 3 ranks", "parallel.pp = 2"});
  expect_refused("name=a,stages=2,micros=2,placement=loop\n0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n", 2,
                 {"s.csv is for 2 micro-batches", "has 3 a step"});
}

TEST_F(CliPipeline, AFileThatCannotRunIsRefusedWithTheReason) {
  const std::string head = "name=a,stages=2,micros=3,placement=loop\n";
  const std::string last = "1F0,1B0,1F1,1B1,1F2,1B2\n";
  expect_refused(head + "0F0,0F1,0F2,0B0,0B1\n" + last, 2,
                 {"s.csv: rank 0 lacks the backward of stage 0, micro 2"});
  expect_refused(head + "0F0,0F1,0F2,0B0,0B1,0B1\n" + last, 2, {"action 6", "comes twice"});
  expect_refused(head + "0F0,0B0,0B1,0F1,0F2,0B2\n" + last, 2,
                 {"B of stage 0, micro 1", "waits forever for F of stage 0, micro 1"});
  expect_refused(head + "0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n", 2,
                 {"waits forever for B of stage 1, micro 0, on rank 1, which waits itself"});
  expect_refused(head + "0F0,0F1,what,0B0,0B1,0B2\n" + last, 4, {"s.csv:2", "'what' is no action"});
  refused(train("refused", "nowhere.csv"), 4, {"nowhere.csv"});
}

TEST_F(CliPipeline, AScheduleThatThereIsNotIsRefusedWithTheNearest) {
  refused(train("r", "1f1bb"), 2, {"parallel.schedule = \"1f1bb\"", "did you mean '1f1b'"});
  refused(train("r", "dualpipe") + Arguments{"--parallel.pp=2"}, 2, {"dualpipe", "3 micros"});
  refused(train("r", "1f1b") + Arguments{"--model.layers=3"}, 2,
          {"model.layers = 3 do not divide into 2 stages", "balanced"});
}

}  // namespace
}  // namespace sextant

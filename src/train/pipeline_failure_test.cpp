// A rank stalls inside a schedule: the others report which action of which stage, micro-batch and
// rank never came.
#include "support/expect_error.h"
#include "support/pipelines.h"

namespace sextant {
namespace {

class PipelineFailure : public PipelineTest {
 protected:
  // The run's error when the rank stalls before its first action on this micro-batch.
  std::string report(const Piped& piped, int rank, int micro, const Settings& settings = {}) {
    const std::string where = concat("fault.inject=stall:rank=", rank, ",step=2,micro=", micro);
    try {
      run(config(kGpt2, piped,
                 Settings{"train.steps=3", "model.tied=false", "fault.deadline=0.3", where,
                          "run.out=" + (dir_ / "out")} +
                     settings));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Peer) << error.what();
      return error.what();
    }
    return "no error";
  }
};

// Whichever rank times out first, its report ends at the rank that blocks all others.
void expect_stalled(const std::string& report, const std::string& stalled,
                    const std::vector<std::string>& never_came) {
  EXPECT_NE(report.find(" did not call "), std::string::npos) << report;
  EXPECT_NE(report.find("; " + stalled), std::string::npos) << report << "\nlacks " << stalled;
  EXPECT_TRUE(std::any_of(never_came.begin(), never_came.end(), [&](const std::string& action) {
    return report.find("which waits for " + action) != std::string::npos;
  })) << report;
}

TEST_F(PipelineFailure, NamesTheActionsOf1f1bThatNeverCame) {
  // Before its forward of micro 3, rank 1 has done the backward of micro 1.
  expect_stalled(report({"1f1b", 3, 6}, 1, 3), "rank 1 is at F of stage 1, micro 3, last: ",
                 {"F of stage 1, micro 3 of rank 1", "B of stage 1, micro 2 of rank 1"});
  // Rank 0 waits for rank 1, and rank 1 for rank 2.
  expect_stalled(report({"1f1b", 3, 6}, 2, 0),
                 "rank 2 is at F of stage 2, micro 0, last: ", {"B of stage 2, micro 0 of rank 2"});
}

TEST_F(PipelineFailure, NamesTheActionsOfAVThatNeverCame) {
  expect_stalled(report({"zb-v", 2, 4}, 1, 0),
                 "rank 1 is at F of stage 1, micro 0, last: ", {"F of stage 2, micro 0 of rank 1"});
}

TEST_F(PipelineFailure, NamesTheActionsOfChunksThatNeverCame) {
  expect_stalled(report({"interleaved", 2, 4, 2}, 1, 1), "rank 1 is at F of stage 1, micro 1",
                 {"F of stage 1, micro 1 of rank 1"});
}

// Half of the schedules with split backward have no B to wait for.
TEST_F(PipelineFailure, NamesTheHalfOfABackwardThatNeverCame) {
  expect_stalled(report({"zb-h1", 2, 1}, 1, 0), "rank 1 is at F of stage 1, micro 0",
                 {"I of stage 1, micro 0 of rank 1"});
}

// The others wait for its weights, or for messages of ranks that wait for its weights.
TEST_F(PipelineFailure, NamesWhatTheRankOfAGatherIsAt) {
  const std::string text =
      report({"1f1b", 2, 3}, 1, 1, {"parallel.shard=2", "parallel.zero=3", "batch.micro=1"});
  EXPECT_NE(text.find(" did not call "), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 is at F of stage 0, micro 1, last: "), std::string::npos) << text;
}

// Ranks of the other pipeline have finished their actions and wait for a reduction: of gradients,
// or of a tied embedding.
TEST_F(PipelineFailure, NamesWhatTheRankOfASumIsAt) {
  const std::string text =
      report({"gpipe", 2, 2}, 1, 1, {"parallel.dp=2", "batch.micro=1", "model.tied=true"});
  EXPECT_NE(text.find(" did not call "), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 is at F of stage 0, micro 1, last: "), std::string::npos) << text;
}

}  // namespace
}  // namespace sextant

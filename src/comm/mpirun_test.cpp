#include "comm/mpirun.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/parse.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

const std::string kEdge = std::string(74, '-') + "\n";

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(Mpirun, GetsTheRanksTheProgramAndTheFlagsInBetween) {
  const std::vector<std::string> words =
      mpirun_command(3, {"/bin/sextant", "train", "a b.toml"}, "--host a:2,b:1 --mca x 'y z'");
  ASSERT_GT(words.size(), 6u);
  EXPECT_EQ(words[0], "mpirun");
  EXPECT_EQ(words[1], "-n");
  EXPECT_EQ(words[2], "3");
  EXPECT_TRUE(has(words, "--oversubscribe"));
  EXPECT_TRUE(has(words, "--bind-to"));
  EXPECT_EQ(has(words, "--allow-run-as-root"), ::geteuid() == 0);
  const std::string all = join(words, "|");
  EXPECT_TRUE(all.ends_with("|--host|a:2,b:1|--mca|x|y z|/bin/sextant|train|a b.toml")) << all;
}

TEST(Mpirun, LeavesToTheUserWhatTheUserSettles) {
  const std::vector<std::string> words =
      mpirun_command(2, {"p"}, "--bind-to core --nooversubscribe");
  EXPECT_EQ(std::count(words.begin(), words.end(), "--bind-to"), 1);
  EXPECT_FALSE(has(words, "none"));
  EXPECT_FALSE(has(words, "--oversubscribe"));
}

TEST(Mpirun, WordsAreSplitAsAShellDoes) {
  EXPECT_TRUE(split_words("").empty());
  EXPECT_EQ(join(split_words("  a  'b c' d\"e f\"g '' "), "|"), "a|b c|de fg|");
  EXPECT_ERROR(split_words("--x 'y"), Config, "run.mpirun: the quote ' has no end");
}

TEST(MpirunOutput, KeepsReportsAndBoxesAndShowsTheRest) {
  MpirunOutput output;
  EXPECT_EQ(output.take("step 1\nst"), "step 1\n");
  EXPECT_EQ(output.take("ep 2\n" + kEdge + "mpirun has noticed\n" + kEdge), "step 2\n");
  EXPECT_FALSE(output.has_report());
  EXPECT_EQ(output.take("error: half" + kEdge + "more\n" + kEdge + "end"), "error: half\n");
  EXPECT_EQ(output.rest(), "end");
  EXPECT_EQ(output.boxes(), "mpirun has noticed\nmore\n");
}

TEST(MpirunOutput, TakesTheCodeOfTheRankThatFailedOfItself) {
  MpirunOutput output;
  EXPECT_EQ(output.take("\x1esextant-rank-ended 5 told\n"), "");
  EXPECT_EQ(output.code(), 5);
  EXPECT_EQ(output.take("a line\x1esextant-rank-ended 4 self\n"), "a line");
  EXPECT_EQ(output.code(), 4);
  output.take("\x1esextant-rank-ended 3 self\n");
  EXPECT_EQ(output.code(), 4) << "the first one counts";
  output.take("\x1esextant-rank-ended x self\n");
  EXPECT_EQ(output.code(), 4);
}

TEST(MpirunOutput, NamesTheRankThatWasKilled) {
  MpirunOutput output;
  EXPECT_EQ(output.killed_rank(), "");
  output.take(kEdge +
              "mpirun noticed that process rank 12 with PID 0 on node n7 exited on signal 9" +
              " (Killed).\n" + kEdge);
  EXPECT_EQ(output.killed_rank(), "rank 12 on n7");
  MpirunOutput other;
  other.take(kEdge + "process rank x with PID 0 exited on signal 9\n" + kEdge);
  EXPECT_EQ(other.killed_rank(), "");
}

TEST(MpirunOutput, ShowsAnErrorOfSeveralRanksOnce) {
  MpirunOutput output;
  EXPECT_EQ(output.take("error: no file\n"), "error: no file\n");
  EXPECT_EQ(output.take("error: no file\nerror: rank 2 failed: no file\n"), "");
  EXPECT_EQ(output.take("step\nstep\n"), "step\nstep\n");
  EXPECT_EQ(output.take("mpirun: Forwarding signal 10 to job\nstep\n"), "step\n");
  EXPECT_EQ(output.take("[n7:12] Read -1, expected 32768, errno = 3\nstep\n"), "step\n");
  EXPECT_EQ(output.rest(), "");
}

TEST(MpirunOutput, ShowsWhatARankHeardOnlyIfTheOneThatFailedIsMute) {
  MpirunOutput output;
  EXPECT_EQ(output.take("error: rank 2 failed: late\n"), "");
  EXPECT_EQ(output.take("error: late\n"), "error: late\n");
  EXPECT_EQ(output.rest(), "");
  EXPECT_EQ(output.take("error: rank 2 failed: other\nerror: rank 2 failed: other\n"), "");
  EXPECT_EQ(output.rest(), "error: rank 2 failed: other\n");
}

}  // namespace
}  // namespace sextant

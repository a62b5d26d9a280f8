#include <gtest/gtest.h>

#include <string>

#include "support/run_program.h"

namespace sextant {
namespace {

Ran probe(int ranks, const std::string& mode, const std::vector<std::string>& set = {},
          const std::string& flags = "") {
  RunSettings settings;
  settings.set = set;
  settings.deadline = std::chrono::seconds(120);
  return Running({SXT_MPI_PROBE, std::to_string(ranks), mode, flags}, settings).finish();
}

// Every rank that said something said all of `parts`.
void expect_failure(const Ran& ran, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_NE(ran.err.find("error: "), std::string::npos) << ran.err;
  for (const std::string& part : parts)
    EXPECT_NE(ran.err.find(part), std::string::npos) << "no '" << part << "' in: " << ran.err;
  EXPECT_EQ(ran.err.find("\x1e"), std::string::npos) << "a report was left in: " << ran.err;
  EXPECT_EQ(ran.err.find("-----"), std::string::npos) << "mpirun talks: " << ran.err;
}

class MpiBits : public testing::TestWithParam<int> {};

TEST_P(MpiBits, AreThoseOfThreads) {
  const Ran ran = probe(GetParam(), "bits");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("same bits"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.err, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiBits, testing::Values(1, 2, 3, 4));

TEST(MpiMismatch, OfOperationsNamesWhoMadeWhat) {
  expect_failure(
      probe(3, "operation"), 5,
      {"group world, call 1: rank 0, 1 made all_reduce sum of 64 f32; rank 2 made barrier"});
}

TEST(MpiMismatch, OfCountsNamesWhoMadeWhat) {
  expect_failure(probe(2, "count"), 5,
                 {"rank 0 made all_reduce sum of 64 f32; rank 1 made all_reduce sum of 63 f32"});
}

TEST(MpiMismatch, OfRootsNamesWhoMadeWhat) {
  expect_failure(
      probe(2, "root"), 5,
      {"rank 0 made broadcast of 64 f32 from 0; rank 1 made broadcast of 64 f32 from 1"});
}

TEST(MpiMismatch, OfOnePairOfSizesIsAnErrorOfAll) {
  expect_failure(probe(3, "sizes"), 5, {"in parts 2 2 2 for 7 in parts 2 3 2"});
}

TEST(MpiMismatch, OfAMessageNamesBothEnds) {
  expect_failure(probe(3, "message"), 5,
                 {"group world, message 1: rank 0 made send of 64 f32 to 1; rank 1 "
                  "made receive of 8 f32 from 0"});
}

TEST(MpiDeadline, ListsTheRanksThatDidNotCome) {
  for (const std::string mode : {"absent", "absent_later"})
    expect_failure(probe(3, mode), 5, {"rank 2 did not call all_reduce sum of 64 f32 within 1 s"});
  expect_failure(
      probe(2, "absent_message"), 5,
      {"rank 1 did not call receive of 64 f32 from 1 within 1 s; rank 0 waits; rank 1 does "
       "not answer"});
}

TEST(MpiFailure, OfOneRankGivesItsExitCodeAndEndsTheOthers) {
  expect_failure(probe(3, "error"), 4, {"error: this rank has bad data"});
}

TEST(MpiFailure, ThatAbortsTellsTheOthersWhy) {
  expect_failure(probe(3, "abort"), 5, {"error: rank 2 aborted: enough"});
}

TEST(MpiFailure, OfAKilledRankIsAPeerFailure) {
  const Ran ran = probe(2, "killed");
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_NE(ran.err.find("signal 9"), std::string::npos) << ran.err;
}

TEST(MpiLaunch, OfAnotherNumberOfRanksIsRefused) {
  expect_failure(probe(2, "bits",
                       {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4",
                        "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}),
                 2, {"mpirun started 4 ranks, but the layout of [parallel] has 2"});
}

TEST(MpiLaunch, ThatMpiDoesNotKnowOfIsRefused) {
  expect_failure(probe(2, "bits",
                       {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_STEP_ID=0",
                        "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}),
                 2, {"the launcher says rank 1 of 2, MPI says rank 0 of 1"});
}

TEST(MpiLaunch, WithFlagsThatMpirunRefusesIsAConfigError) {
  const Ran ran = probe(2, "bits", {}, "--no-such-flag");
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_NE(ran.err.find("--no-such-flag"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("error: mpirun could not start the ranks"), std::string::npos) << ran.err;
}

TEST(MpiLaunch, OfAHostThatCannotBeReachedIsAPeerFailure) {
  const Ran ran = probe(2, "bits", {}, "--host no-such-host:2 --mca plm_rsh_agent /bin/false");
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_NE(ran.err.find("error: mpirun could not start the ranks"), std::string::npos) << ran.err;
}

TEST(MpiLaunch, IsEndedBySignalsThatTheParentGets) {
  RunSettings settings;
  settings.deadline = std::chrono::seconds(60);
  // Also where mpirun does not forward them.
  for (const char* flags : {"", "--mca ess_base_forward_signals none"}) {
    Running running({SXT_MPI_PROBE, "2", "forever", flags}, settings);
    ASSERT_TRUE(running.read_until("under way"));
    running.kill(SIGINT);
    EXPECT_EQ(running.finish().code, 130) << flags;
  }
}

TEST(MpiLaunch, OfAProgramThatIsNotThereIsAConfigError) {
  expect_failure(probe(2, "bits", {"PATH=/nowhere"}), 2, {"cannot start mpirun", "openmpi-bin"});
}

// mpirun has its stdout: the end of that is not read before mpirun has ended.
TEST(MpiLaunch, EndsWithItsParentEvenIfThatIsKilled) {
  RunSettings settings;
  settings.deadline = std::chrono::seconds(60);
  Running running({SXT_MPI_PROBE, "2", "forever"}, settings);
  ASSERT_TRUE(running.read_until("under way"));
  running.kill(SIGKILL);
  EXPECT_EQ(running.finish().code, 128 + SIGKILL);
}

}  // namespace
}  // namespace sextant

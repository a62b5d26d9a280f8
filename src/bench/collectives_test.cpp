#include "bench/collectives.h"

#include <gtest/gtest.h>

#include "base/storage.h"
#include "bench/collective_pictures.h"
#include "bench/collectives_algorithms.h"
#include "bench/mpi_peer.h"
#include "support/built.h"
#include "support/expect_error.h"
#include "support/same_picture.h"

namespace sextant {
namespace {

TEST(BenchCollectives, ListsAreReadAndRefusedByName) {
  EXPECT_EQ(parse_operations("all_to_all,broadcast"),
            (std::vector<Operation>{Operation::AllToAll, Operation::Broadcast}));
  EXPECT_EQ(parse_operations("all_reduce,reduce_scatter,all_gather,all_to_all,broadcast,scatter,"
                             "gather,reduce,send,receive,barrier"),
            timed_operations());
  EXPECT_ERROR((void)parse_operations("all_reduse"), Usage, "did you mean 'all_reduce'?");
  EXPECT_ERROR((void)parse_operations("barriers"), Usage, "did you mean 'barrier'?");
  EXPECT_ERROR((void)parse_operations(""), Usage, "'' is none of");
  EXPECT_EQ(parse_ranks("2,16"), (std::vector<int>{2, 16}));
  for (const char* wrong : {"0", "65", "two", "2,", ""})
    EXPECT_ERROR((void)parse_ranks(wrong), Usage, "from 1 to 64");
  EXPECT_EQ(parse_sizes("64,1KiB,1.5MiB"), (std::vector<int64_t>{64, 1024, 1572864}));
  for (const char* wrong : {"63", "8GiB", "much", ""})
    EXPECT_ERROR((void)parse_sizes(wrong), Usage, "such as 1KiB,16MiB");
  EXPECT_EQ(default_sizes(1 << 18), (std::vector<int64_t>{1 << 10, 1 << 14, 1 << 18}));
  EXPECT_EQ(default_sizes(int64_t{256} << 20).back(), int64_t{256} << 20);
  EXPECT_EQ(parse_algorithms("ring,naive"),
            (std::vector<Algorithm>{Algorithm::Ring, Algorithm::Naive}));
  EXPECT_ERROR((void)parse_algorithms("rings"), Usage, "did you mean 'ring'?");
}

TEST(BenchCollectives, BusBandwidthCountsWhatARankMustSend) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::AllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::AllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::Broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::Scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::Send, 4), 1);
  const CollectiveRow row{Operation::AllReduce, 4, 1000, 0.5, 0.25, 1.0};
  EXPECT_DOUBLE_EQ(row.bandwidth(row.seconds), 3000);
  EXPECT_DOUBLE_EQ(row.bandwidth(0), 0);
  EXPECT_DOUBLE_EQ(row.limit_ratio(), 0.5);
  EXPECT_DOUBLE_EQ(row.mpi_ratio(), 2);
}

TEST(BenchCollectives, MeasuresEveryOperationForEveryNumberOfRanksAndSize) {
  CollectiveOptions options;
  options.ranks = {2, 3};
  options.sizes = {1024, 1000, int64_t{1} << 60};
  options.turns = {.repeats = 1, .seconds = 0};
  options.rounds = 1;
  int asked = 0;
  options.peer = [&](int ranks, const std::vector<NativeTask>& tasks, const Turns& turns) {
    ++asked;
    EXPECT_EQ(turns.repeats, 1);
    std::vector<double> seconds;
    for (const NativeTask& task : tasks) {
      EXPECT_EQ(task.bytes % (4 * ranks), 0);
      seconds.push_back(static_cast<double>(task.bytes));
    }
    return seconds;
  };
  const CollectiveReport report = bench_collectives(options, SystemClock());
  ASSERT_EQ(report.rows.size(), 2 * (10 * 2 + 1u));  // a barrier has no size
  for (const CollectiveRow& row : report.rows) {
    EXPECT_GT(row.seconds, 0);
    EXPECT_LT(row.seconds, 10);
    if (!has_limit(row.operation)) {
      EXPECT_EQ(row.limit_seconds, 0);
      EXPECT_EQ(row.mpi_seconds, 0);
      continue;
    }
    EXPECT_GT(row.limit_seconds, 0);
    EXPECT_LT(row.limit_seconds, 10);
    EXPECT_EQ(row.mpi_seconds, row.bytes);  // each row has its own result
  }
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(report.skipped.size(), 2 * 10u);
  EXPECT_NE(report.skipped.front().find("more than half of this machine's memory"),
            std::string::npos);
}

TEST(BenchCollectives, SaysWhyThereIsNoPeerAndAsksItOnce) {
  CollectiveOptions options;
  options.operations = {Operation::AllReduce};
  options.ranks = {2, 3};
  options.sizes = {1024};
  options.turns = {.repeats = 1, .seconds = 0};
  int asked = 0;
  options.peer = [&](int, const std::vector<NativeTask>&, const Turns&) -> std::vector<double> {
    ++asked;
    SXT_FAIL(Failure, "no such thing");
  };
  const CollectiveReport report = bench_collectives(options, SystemClock());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(report.why_no_peer, "no such thing");
  for (const CollectiveRow& row : report.rows) EXPECT_EQ(row.mpi_seconds, 0);
  options.turns.repeats = 0;
  EXPECT_ERROR((void)bench_collectives(options, SystemClock()), Usage, "repeats=0");
}

TEST(Turns, HoldAsManyCallsAsFitButOneAtLeast) {
  const Turns turns{.repeats = 1, .seconds = 0.01};
  EXPECT_EQ(turns.calls(0.001), 10);
  EXPECT_EQ(turns.calls(1), 1);
  EXPECT_EQ(turns.calls(0), 20000);
}

TEST(BenchAlgorithms, CountWhatTheLedgersSay) {
  const std::vector<AlgorithmRow> rows =
      bench_algorithms({Algorithm::Naive, Algorithm::Ring}, {4}, {4096}, 1, SystemClock());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].busiest, 3 * 1024);
  EXPECT_EQ(rows[1].busiest, 2 * 3 * 1024 / 4);
  for (const AlgorithmRow& row : rows) {
    EXPECT_EQ(row.total, 2 * 3 * 1024);
    EXPECT_EQ(row.steps, 6);
    EXPECT_GT(row.seconds, 0);
    EXPECT_LT(row.seconds, 10);
  }
}

TEST(MpiPeer, TasksTravelAsText) {
  const std::string text = "all_reduce:4096,broadcast:8";
  const std::vector<NativeTask> tasks = parse_tasks(text);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].operation, Operation::AllReduce);
  EXPECT_EQ(tasks[0].bytes, 4096);
  EXPECT_EQ(to_text(tasks), text);
  EXPECT_ERROR((void)parse_tasks("all_reduce"), Usage, "operation:bytes");
  EXPECT_ERROR((void)parse_tasks("all_reduce:0"), Usage, "at least 1");
  EXPECT_ERROR((void)parse_tasks("sent:8"), Usage, "'sent' is none of");
}

TEST(MpiPeer, ATaskOfAnotherProgramIsAFailureThatSaysWhatItSaid) {
  EXPECT_ERROR((void)run_mpi_peer("/nonexistent/program", 2, parse_tasks("all_reduce:64"), {}, 30),
               Failure, "MPI");
}

// sextant bench collectives --pictures docs/collectives
TEST(CollectivePictures, InTheDocumentsAreThoseThatTheProgramDraws) {
  const std::vector<Picture> pictures = draw_collectives();
  EXPECT_EQ(pictures.size(), 9u);
  for (const Picture& picture : pictures)
    expect_same_picture(source_dir() + "/docs/collectives/" + picture.name + ".svg", picture.svg);
}

TEST(CollectivePictures, ShowSumsByTheirParts) {
  for (const Picture& picture : draw_collectives()) {
    const bool has_sum = picture.svg.find(">+</text>") != std::string::npos;
    EXPECT_EQ(has_sum, picture.name.find("reduce") != std::string::npos) << picture.name;
  }
}

}  // namespace
}  // namespace sextant

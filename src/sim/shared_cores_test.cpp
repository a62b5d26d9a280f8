// Ranks that share cores: hand-made traces, and random ones against a simulation in small steps.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/trace_time.h"
#include "trace/recorder.h"

namespace sextant {
namespace {

// Ranks of compute and collectives of all ranks, whose seconds are given.
class Program {
 public:
  explicit Program(int ranks)
      : recorders_(static_cast<size_t>(ranks)), seconds_(recorders_.size()) {}

  void compute(int rank, double seconds) { add(rank, "matmul", Trace::kCompute, seconds); }
  // Beside the compute lane; `waits` makes the next compute operation wait for it.
  void all_reduce(double seconds, bool waits) {
    for (int rank = 0; rank < static_cast<int>(recorders_.size()); ++rank) {
      TraceRecorder& recorder = recorders_[static_cast<size_t>(rank)];
      TraceLane lane{"dp", TraceLane::Kind::Collective, "dp"};
      for (int member = 0; member < static_cast<int>(recorders_.size()); ++member)
        lane.ranks.push_back(member);
      add(rank, "all_reduce", recorder.lane(lane), seconds);
      if (waits) recorder.wait_for(recorder.last());
    }
  }
  TracedRanks take(const SharedCores& cores) {
    TracedRanks out;
    out.cores = cores;
    for (size_t rank = 0; rank < recorders_.size(); ++rank)
      out.ranks.push_back({static_cast<int>(rank), recorders_[rank].trace(), seconds_[rank]});
    return out;
  }
  double end(const SharedCores& cores) {
    double latest = 0;
    for (const std::vector<OpTimes>& rank : time_traces(take(cores)))
      for (const OpTimes& op : rank) latest = std::max(latest, op.end);
    return latest;
  }

 private:
  void add(int rank, const char* name, int lane, double seconds) {
    recorders_[static_cast<size_t>(rank)].begin(name, lane);
    recorders_[static_cast<size_t>(rank)].end();
    seconds_[static_cast<size_t>(rank)].push_back(seconds);
  }

  std::vector<TraceRecorder> recorders_;
  std::vector<std::vector<double>> seconds_;
};

TEST(SharedCores, RanksThatFitBesideEachOtherAreNotSlower) {
  Program program(2);
  program.compute(0, 3);
  program.compute(1, 5);
  EXPECT_DOUBLE_EQ(program.end({}), 5);
  EXPECT_DOUBLE_EQ(program.end({2, 1}), 5);
}

TEST(SharedCores, OneCoreDoesTheWorkOfAllRanks) {
  Program program(2);
  program.compute(0, 3);
  program.compute(1, 5);
  const auto times = time_traces(program.take({1, 1}));
  EXPECT_DOUBLE_EQ(times[0][0].end, 6);  // half a core each until it is done
  EXPECT_DOUBLE_EQ(times[1][0].end, 8);
}

TEST(SharedCores, RanksOfSeveralThreadsNeedSeveralCores) {
  Program program(2);
  program.compute(0, 3);
  program.compute(1, 3);
  EXPECT_DOUBLE_EQ(program.end({4, 2}), 3);
  EXPECT_DOUBLE_EQ(program.end({2, 2}), 6);
}

TEST(SharedCores, CollectivesBesideComputeTakeACoreOfEachMember) {
  Program program(2);
  program.all_reduce(2, false);
  for (const int rank : {0, 1}) program.compute(rank, 2);
  EXPECT_DOUBLE_EQ(program.end({4, 1}), 2);
  EXPECT_DOUBLE_EQ(program.end({2, 1}), 4);
  EXPECT_DOUBLE_EQ(program.end({1, 1}), 8);
}

TEST(SharedCores, ARepresentativeUsesTheCoresOfAllThatItStandsFor) {
  Program program(1);
  program.compute(0, 3);
  TracedRanks traced = program.take({2, 1});
  traced.stand_ins = {0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(time_traces(traced)[0][0].end, 6);
}

TEST(SharedCores, WithEnoughCoresTimesAreThoseOfDevicesOfTheirOwn) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Program program(4);
    double work = 0;
    for (int i = 0; i < 30; ++i) {
      const double seconds = 1 + static_cast<double>(random() % 100);
      if (random() % 3 == 0) {
        program.all_reduce(seconds, random() % 2 == 0);
        work += 4 * seconds;
      } else {
        program.compute(static_cast<int>(random() % 4), seconds);
        work += seconds;
      }
    }
    const double apart = program.end({});
    EXPECT_NEAR(program.end({8, 1}), apart, 1e-9 * apart);  // compute and collectives of four ranks
    for (const int cores : {1, 2, 3, 4, 8}) {
      const double end = program.end({cores, 1});
      EXPECT_GE(end, std::max(apart, work / cores) * (1 - 1e-9));
      EXPECT_LE(end, (apart + work / cores) * (1 + 1e-9));
    }
    EXPECT_NEAR(program.end({1, 1}), work, 1e-9 * work) << "one core is never idle";
  }
}

}  // namespace
}  // namespace sextant

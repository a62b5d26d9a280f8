#include "tensor/team.h"

#include <atomic>
#include <numeric>
#include <vector>

#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr int kSizes[] = {1, 2, 4};

TEST(Team, RunsOnceOnEveryThread) {
  for (const int size : kSizes) {
    Team team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(static_cast<size_t>(size));
    for (int round = 0; round < 500; ++round)
      team.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), 500));
  }
}

TEST(Team, PiecesCoverEachElementOnce) {
  for (const int size : kSizes) {
    Team team(size);
    for (const int64_t count : {0, 1, 7, 8, 9, 1000})
      for (const int64_t grain : {1, 8, 999, 2000}) {
        std::vector<int> seen(static_cast<size_t>(count));
        team.for_pieces(count, grain, [&](int64_t begin, int64_t end, int thread) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end == count || end == begin + grain) << begin << " to " << end;
          EXPECT_TRUE(thread >= 0 && thread < size);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1)) << count << ", " << grain;
      }
  }
}

TEST(Team, WhatThreadsWroteIsSeenAfterTheRun) {
  Team team(4);
  std::vector<int64_t> values(4096);
  for (int64_t round = 1; round <= 200; ++round) {
    team.for_pieces(4096, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
    });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), round * 4096 * 4095 / 2);
  }
}

TEST(Team, ThrowsOnWhatAThreadThrew) {
  for (const int size : kSizes) {
    Team team(size);
    for (int thrower = 0; thrower < size; ++thrower) {
      EXPECT_ERROR(team.run([&](int thread) {
        if (thread == thrower) SXT_FAIL(Data, "from thread ", thread);
      }),
                   Data, concat("from thread ", thrower));
      std::atomic<int> calls = 0;  // the team still works
      team.run([&](int) { ++calls; });
      EXPECT_EQ(calls, size);
    }
    EXPECT_ERROR(team.run([](int) { SXT_FAIL(Failure, "from all"); }), Failure, "from all");
  }
}

TEST(Team, RefusesToBeEmpty) {
  EXPECT_ERROR(Team(0), Usage, "a team of 0 threads");
}

}  // namespace
}  // namespace sextant

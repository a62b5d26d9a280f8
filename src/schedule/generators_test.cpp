#include "schedule/generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "schedule/print.h"

namespace sextant {
namespace {

// The kinds of a rank's actions, such as "FFBW".
std::string types(const Schedule& schedule, int rank) {
  std::string out = order(schedule)[rank];
  std::erase_if(out, [](unsigned char c) { return !std::isalpha(c); });
  return out;
}

TEST(Gpipe, RunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(to_string(gpipe(2, 3)),
            "F0 F1 F2 B0 B1 B2\n"
            "F0 F1 F2 B0 B1 B2\n");
}

TEST(OneFOneB, FillsAlternatesDrains) {
  EXPECT_EQ(to_string(one_f_one_b(4, 8)),
            "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
            "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
            "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

TEST(OneFOneB, WithFewerMicrosThanRanksOnlyFillsAndDrains) {
  EXPECT_EQ(to_string(one_f_one_b(3, 1)), "F0 B0\nF0 B0\nF0 B0\n");
}

TEST(Interleaved, PassesGroupsThroughChunks) {
  EXPECT_EQ(to_string(interleaved(2, 4, 2, 2)),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0\n"
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0\n");
}

TEST(Interleaved, PlacesChunksAroundTheRanks) {
  const Schedule schedule = interleaved(2, 2, 2, 2);
  EXPECT_EQ(schedule.stages, 4);
  EXPECT_EQ(schedule.ranks[1][0], (Action{Kind::F, 1, 0}));
  EXPECT_EQ(schedule.ranks[1][2], (Action{Kind::F, 3, 0}));
}

TEST(LoopedBfs, UsesEachChunkInTwoRuns) {
  EXPECT_EQ(to_string(looped_bfs(2, 2, 2)),
            "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\n"
            "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\n");
}

TEST(ZeroBubble, H1RunsWeightHalvesLaterOnLaterRanks) {
  EXPECT_EQ(to_string(zb_h1(4, 8)),
            "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 B5 W5 B6 W6 B7 W7\n"
            "F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7\n"
            "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5 W6 W7\n"
            "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 W5 W6 W7\n");
}

TEST(ZeroBubble, H2FillsThePipeTwice) {
  const std::vector<std::string> lines = order(zb_h2(4, 8));
  EXPECT_EQ(lines[0], "F0 F1 F2 F3 F4 F5 F6 B0 W0 F7 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7");
  EXPECT_EQ(lines[3], "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 W0 F7 B7 W1 W2 W3 W4 W5 W6 W7");
}

TEST(InterleavedZb, StartsBackwardsAfterHalfTheWarmUp) {
  EXPECT_EQ(order(interleaved_zb(2, 2, 2, 2)),
            (std::vector<std::string>{
                "F0.0 F1.0 F0.1 F1.1 B0.1 W0.1 B1.1 W1.1 B0.0 W0.0 B1.0 W1.0",
                "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 W0.1 B0.0 W1.1 B1.0 W0.0 W1.0",
            }));
}

TEST(ZbV, TurnsAtTheLastRank) {
  EXPECT_EQ(to_string(zb_v(2, 4)),
            "F0 F1 F2 f0 b0 w0 f1 b1 w1 F3 B0 W0 f2 b2 w2 B1 W1 f3 b3 w3 B2 W2 B3 W3\n"
            "F0 f0 F1 f1 b0 w0 F2 B0 W0 f2 b1 w1 F3 B1 W1 f3 b2 w2 B2 b3 B3 W2 w3 W3\n");
}

TEST(VHalf, HasItsPatternOnRankZero) {
  EXPECT_EQ(types(v_half(4, 8), 0), "FFFFFfbwfbwfBbwfWFBbwfWFBbwfWFBbwfbwBWWfbBwBWWBW");
}

TEST(VMin, HasItsPatternOnRankZero) {
  EXPECT_EQ(types(v_min(4, 8), 0), "FFFfbwfbwBWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWfbBwWBW");
}

TEST(Dualpipe, SendsMicrosFromBothEnds) {
  EXPECT_EQ(to_string(dualpipe(2, 4)),
            "F0.0 F2.1 F1.0 B2.1 F3.1 B0.0 B3.1 B1.0 W1.0\n"
            "F2.1 F0.0 F3.1 B0.0 F1.0 B2.1 B1.0 B3.1 W3.1\n");
}

TEST(Dualpipe, JoinsForwardsWithWholeBackwardsOfTheOtherDirection) {
  for (const Schedule& schedule : {dualpipe(8, 20), dualpipe_v(4, 10)}) {
    int joined = 0;
    for (const std::vector<Action>& todo : schedule.ranks)
      for (size_t i = 0; i < todo.size(); ++i) {
        if (!todo[i].joined) continue;
        ++joined;
        EXPECT_EQ(todo[i].kind, Kind::F);
        EXPECT_EQ(todo[i + 1].kind, Kind::B);
        EXPECT_NE(todo[i].stage, todo[i + 1].stage);
      }
    // 4 ranks to the middle, 10 micros per phase: rank q from the end has 2 (3 + q) + 3 - q joined
    // blocks, the middle rank one less.
    EXPECT_EQ(joined, schedule.size() / 4 * (9 + 10 + 11 + 11)) << schedule.name;
  }
}

TEST(DualpipeV, WarmsUpWithTwiceItsRanksForwards) {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = types(dualpipe_v(4, 10), rank);
    EXPECT_EQ(text.find_first_of("bB"), rank == 3 ? 9u : 8u) << rank;
  }
}

}  // namespace
}  // namespace sextant

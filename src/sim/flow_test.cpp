#include "sim/flow.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "sim/flow_classes.h"

namespace sextant {
namespace {

FlowOp compute(double seconds) {
  return {.step = FlowStep::Compute, .amount = seconds};
}
FlowOp post(int slot, double bytes, double latency = 0) {
  return {.step = FlowStep::Post, .slot = slot, .amount = bytes, .latency = latency};
}
FlowOp wait(int slot, int count) {
  return {.step = FlowStep::Wait, .slot = slot, .count = count};
}

// Ranks that each post one transfer on a channel of their own and wait for it.
FlowCluster transfers(std::vector<double> capacities, std::vector<double> bytes,
                      std::vector<std::vector<FlowUse>> uses) {
  FlowCluster out;
  for (const double capacity : capacities) out.links.push_back({capacity});
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int number = static_cast<int>(i);
    out.programs.push_back({post(0, bytes[i]), wait(0, 1)});
    out.ranks.push_back({number, 1, {number}});
    out.channels.push_back({0, {number}, uses[i]});
  }
  return out;
}

TEST(Flow, TwoTransfersOnALinkGetHalfEach) {
  // 5 B/s each for 10 s; the rest of the longer one has the link to itself for another 5 s.
  const FlowResult got =
      simulate_flows(transfers({10}, {100, 50}, {{{0, 1}}, {{0, 1}}}), FlowDetail::Exactly);
  EXPECT_DOUBLE_EQ(got.finished[0], 15);
  EXPECT_DOUBLE_EQ(got.finished[1], 10);
  EXPECT_DOUBLE_EQ(got.link_bytes[0], 150);
}

TEST(Flow, WhatABottleneckLeavesGoesToTheOthers) {
  // A needs both links, B the wide one, C the narrow one: 2, 8 and 2 B/s.
  const FlowResult got =
      simulate_flows(transfers({10, 4}, {20, 80, 20}, {{{0, 1}, {1, 1}}, {{0, 1}}, {{1, 1}}}),
                     FlowDetail::Exactly);
  for (const double end : got.finished) EXPECT_DOUBLE_EQ(end, 10);
}

TEST(Flow, SharesCountBytesOfALinkPerByteMoved) {
  // Equal rates x with 3x + x = 8.
  const FlowResult got =
      simulate_flows(transfers({8}, {10, 10}, {{{0, 3}}, {{0, 1}}}), FlowDetail::Exactly);
  EXPECT_DOUBLE_EQ(got.finished[0], 5);
  EXPECT_DOUBLE_EQ(got.finished[1], 5);
  EXPECT_DOUBLE_EQ(got.link_bytes[0], 40);
}

FlowCluster ring(int ranks, double capacity, double bytes, double latency) {
  FlowCluster out;
  FlowChannel channel;
  for (int rank = 0; rank < ranks; ++rank) {
    out.links.push_back({capacity});
    out.ranks.push_back({0, 1, {0}});
    channel.posters.push_back(rank);
    channel.uses.push_back({rank, 1});
  }
  out.channels.push_back(channel);
  out.programs.push_back({post(0, bytes, latency), wait(0, 1)});
  return out;
}

TEST(Flow, ARingAllReduceAloneTakesItsClosedForm) {
  for (const int n : {2, 4, 8, 100}) {
    const double data = 1e9, rate = 25e9, hop = 3e-6;
    const double bytes = 2.0 * (n - 1) / n * data, latency = 2 * (n - 1) * hop;
    const FlowResult got = simulate_flows(ring(n, rate, bytes, latency), FlowDetail::ByClass);
    EXPECT_NEAR(got.seconds, latency + bytes / rate, 1e-12) << n;
    EXPECT_EQ(got.rank_classes + got.channel_classes + got.link_classes, 3);
  }
}

TEST(Flow, ACollectiveStartsWithItsLastMember) {
  FlowCluster cluster = ring(4, 10, 20, 1);
  cluster.programs.push_back({compute(7), post(0, 20, 1), wait(0, 1)});
  cluster.ranks[2].program = 1;
  const FlowResult got = simulate_flows(cluster, FlowDetail::ByClass);
  for (const double end : got.finished) EXPECT_DOUBLE_EQ(end, 7 + 1 + 2);
  // Its compute three times slower.
  cluster.ranks[2].slowness = 3;
  EXPECT_DOUBLE_EQ(simulate_flows(cluster, FlowDetail::ByClass).seconds, 21 + 3);
}

TEST(Flow, TransfersOfAChannelRunInOrder) {
  FlowCluster cluster = ring(2, 10, 0, 0);
  cluster.programs[0] = {post(0, 30), post(0, 20), compute(1), wait(0, 1), compute(4), wait(0, 2)};
  // The first ends at 3; compute until 7; the second ended at 5.
  EXPECT_DOUBLE_EQ(simulate_flows(cluster, FlowDetail::Exactly).seconds, 7);
  // While one of them is on its way, compute has 3/4 of its rate: 3/4 of a second are done at 3, so
  // the first wait is over at 3 either way; 2 s of 4 are left over a busy link until 5: 1.5 done.
  cluster.overlap = 0.25;
  EXPECT_DOUBLE_EQ(simulate_flows(cluster, FlowDetail::Exactly).seconds, 5 + 2.5);
}

TEST(Flow, AProgramThatWaitsForeverIsRefused) {
  FlowCluster cluster = ring(2, 10, 5, 0);
  cluster.programs.push_back({wait(0, 1)});
  cluster.ranks[1].program = 1;  // never posts
  try {
    simulate_flows(cluster, FlowDetail::Exactly);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waits forever"), std::string::npos) << error.what();
  }
}

// A grid of rows and columns: each row and each column has a ring over the ranks' links; programs
// mix both, and some ranks and links differ.
FlowCluster random_grid(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int most) {
    return static_cast<int>(random() % static_cast<uint64_t>(most));
  };
  const int rows = 2 + pick(4), columns = 2 + pick(5);
  FlowCluster out;
  for (int p = 0; p < 2; ++p) {
    FlowProgram program;
    int posted[2] = {0, 0};
    for (int i = 0; i < 6; ++i) {
      const int slot = p == 0 || i % 2 == 0 ? i % 2 : 1;
      program.push_back(compute(1 + i % 3));
      if (i < 4) {
        program.push_back(post(i % 2, 10.0 * (1 + i), 0.1));
        ++posted[i % 2];
      }
      if (posted[slot] > 0 && i % 3 == 2) program.push_back(wait(slot, posted[slot]));
    }
    for (int slot = 0; slot < 2; ++slot) program.push_back(wait(slot, posted[slot]));
    out.programs.push_back(program);
  }
  const int ranks = rows * columns;
  for (int rank = 0; rank < ranks; ++rank) {
    out.ranks.push_back({rank / columns % 2, 1, {rank / columns, rows + rank % columns}});
    out.links.push_back({10.0 + rank / columns % 2});
  }
  out.links.push_back({20});  // shared by all columns
  for (int i = 0; i < rows + columns; ++i) {
    FlowChannel channel{i < rows ? 0 : 1, {}, {}};
    for (int rank = 0; rank < ranks; ++rank)
      if (i < rows ? rank / columns == i : rank % columns == i - rows) {
        channel.posters.push_back(rank);
        channel.uses.push_back({rank, 1});
      }
    if (i >= rows) channel.uses.push_back({ranks, 0.5});
    out.channels.push_back(channel);
  }
  if (seed % 3 > 0) out.ranks[static_cast<size_t>(pick(ranks))].slowness = 2;
  if (seed % 3 > 1) out.links[static_cast<size_t>(pick(ranks))].capacity = 3;
  out.overlap = seed % 2 == 0 ? 0.3 : 0;
  return out;
}

TEST(Flow, ClassesTakeAsLongAsEveryRank) {
  int fewer = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const FlowCluster cluster = random_grid(seed);
    const FlowResult all = simulate_flows(cluster, FlowDetail::Exactly);
    const FlowResult classes = simulate_flows(cluster, FlowDetail::ByClass);
    for (size_t i = 0; i < cluster.ranks.size(); ++i)
      ASSERT_NEAR(all.finished[i], classes.finished[i], 1e-9) << seed << " rank " << i;
    for (size_t i = 0; i < cluster.links.size(); ++i)
      ASSERT_NEAR(all.link_bytes[i], classes.link_bytes[i], 1e-6) << seed << " link " << i;
    fewer += classes.rank_classes < static_cast<int>(cluster.ranks.size());
  }
  EXPECT_GT(fewer, 20);
}

TEST(Flow, AnythingThatDiffersHasAClassOfItsOwn) {
  FlowCluster cluster = ring(8, 10, 20, 0);
  EXPECT_EQ(classes_of(cluster).ranks.size(), 1u);
  cluster.ranks[3].slowness = 1.5;
  EXPECT_EQ(classes_of(cluster).ranks.size(), 2u);
  cluster.links[5].capacity = 9;
  EXPECT_EQ(classes_of(cluster).links.size(), 2u);
}

}  // namespace
}  // namespace sextant

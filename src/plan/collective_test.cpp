// Groups, rates and seconds of collectives on switches, tori and networks of several levels.
#include "plan/collective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace sextant {
namespace {

const Hardware& hardware_named(const char* name) {
  static DiskStorage storage;
  static std::map<std::string, Hardware> known;
  if (!known.contains(name)) known[name] = find_hardware(storage, name);
  return known[name];
}

// Against every group of every axis, member by member.
TEST(LinkGroup, IsTheWorstOfAllGroupsOfTheAxis) {
  Hardware hardware = hardware_named("H100");
  for (const int64_t domain : {4, 6, 8, 12})
    for (const int64_t ranks : {2, 3, 4, 5, 6, 8, 12, 24})
      for (const int64_t stride : {1, 2, 3, 4, 5, 8})
        for (const int64_t blocks : {1, 2, 3, 5, 16}) {
          hardware.domain = domain;
          hardware.node_gpus = domain / 2;
          const int64_t block = ranks * stride, world = blocks * block;
          const int64_t used = used_domain(hardware, world);
          const auto least = [&](int64_t gpus) {
            int64_t out = ranks;
            for (int64_t start = 0; start < world; start += block)
              for (int64_t first = start; first < start + stride; ++first) {
                std::map<int64_t, int64_t> members;
                for (int64_t i = 0; i < ranks; ++i) ++members[(first + i * stride) / gpus];
                for (const auto& [where, count] : members) out = std::min(out, count);
              }
            return out;
          };
          const LinkGroup group = group_of(ranks, stride, hardware, world);
          ASSERT_EQ(group.local, least(used))
              << domain << " " << ranks << " " << stride << " " << blocks;
          ASSERT_EQ(group.node, std::min(group.local, least(domain / 2)));
        }
}

TEST(LinkGroup, AJobTakesEquallyManyRanksOfEachDomain) {
  const Hardware gb200 = hardware_named("GB200");
  EXPECT_EQ(used_domain(gb200, 64), 72);
  EXPECT_EQ(used_domain(gb200, 256), 64);
  EXPECT_EQ(used_domain(gb200, 144), 72);
  EXPECT_EQ(used_domain(gb200, 148), 72);
  EXPECT_EQ(used_domain(hardware_named("H100"), 12), 8);
}

TEST(Collectives, LargeOnesReachTheRateOfTheRing) {
  const Constants k;
  const Hardware& h100 = hardware_named("H100");
  const double bytes = 4e9;
  const LinkGroup inside = group_of(8, 1, h100), across = group_of(64, 1, h100),
                  rail = group_of(8, 8, h100);
  const double rate = 450e9 * k.link;
  EXPECT_NEAR(collective_seconds(h100, k, CollectiveKind::AllGather, bytes, inside),
              bytes * 7 / 8 / rate, 0.02 * bytes / rate);
  // Eight GPUs of a node share their eight NICs; one rank per node has its own alone.
  EXPECT_DOUBLE_EQ(bus_rate(h100, k, across), std::min(rate, 8 * 50e9 * k.nic));
  EXPECT_DOUBLE_EQ(bus_rate(h100, k, rail), 50e9 * k.nic);
}

TEST(Collectives, SmallOnesTakeTheTreeAndTheSwitchHalvesLargeSums) {
  const Constants k;
  const LinkGroup across = group_of(512, 1, hardware_named("A100"));
  // 2 (n - 1) hops of a ring at the shortest latency, against 2 log2(nodes) of a tree.
  const double ring = k.latency * (2 * 511 - 128) * 0.6e-6;
  EXPECT_LT(collective_seconds(hardware_named("A100"), k, CollectiveKind::AllReduce, 1024, across),
            ring);
  const LinkGroup inside = group_of(8, 1, hardware_named("H100"));
  const double bytes = 1e9;
  EXPECT_LT(collective_seconds(hardware_named("H100"), k, CollectiveKind::AllReduce, bytes, inside),
            0.9 * 2 * bytes * 7 / 8 / (450e9 * k.link));
}

TEST(Collectives, AnOversubscribedNetworkSlowsGroupsOfManyNodes) {
  DiskStorage storage;
  Hardware plain = find_hardware(storage, "H100"), taper = plain;
  taper.oversubscribed = 4;
  const Constants c;
  const auto seconds = [&](const Hardware& hw, int64_t ranks) {
    return collective_seconds(hw, c, CollectiveKind::AllGather, 1e11, group_of(ranks, 1, hw));
  };
  EXPECT_DOUBLE_EQ(seconds(taper, 64), seconds(plain, 64));  // 8 nodes
  EXPECT_NEAR(seconds(taper, 128) / seconds(plain, 128), 4, 0.3);
}

// The table of NVIDIA's SuperPods: GB/s between halves, both directions, and of an all-reduce.
TEST(Topologies, SuperPodsHaveTheirPublishedBisectionAndReduceFigures) {
  const Hardware &a100 = hardware_named("A100-SuperPod-256"),
                 &h100 = hardware_named("H100-SuperPod-256");
  EXPECT_DOUBLE_EQ(bisection(a100, 8), 2400e9);
  EXPECT_DOUBLE_EQ(bisection(h100, 8), 3600e9);
  EXPECT_DOUBLE_EQ(bisection(a100, 256), 6400e9);
  EXPECT_DOUBLE_EQ(bisection(h100, 256), 57600e9);
  EXPECT_DOUBLE_EQ(reduce_rate(a100, 8), 150e9);
  EXPECT_DOUBLE_EQ(reduce_rate(h100, 8), 450e9);
  EXPECT_DOUBLE_EQ(reduce_rate(a100, 256), 100e9);
  EXPECT_DOUBLE_EQ(reduce_rate(h100, 256), 450e9);
}

TEST(Topologies, ATaperSlowsGroupsWithOneRankInEachNode) {
  const Constants k;
  Hardware taper = hardware_named("H100-SuperPod-256"), plain = taper;
  plain.taper = 1;
  const LinkGroup whole = group_of(64, 1, taper), rail = group_of(32, 8, taper);
  EXPECT_DOUBLE_EQ(bus_rate(taper, k, whole), bus_rate(plain, k, whole));  // all links of a node
  EXPECT_DOUBLE_EQ(bus_rate(taper, k, rail), bus_rate(plain, k, rail) / 2);
  const auto exchange = [&](const Hardware& hardware) {
    return collective_seconds(hardware, k, CollectiveKind::AllToAll, 1e10, whole);
  };
  EXPECT_GT(exchange(taper), 1.5 * exchange(plain));
}

// Rings use every axis that a group spans; all-to-all gets slower with the side of the torus, on
// switches it does not.
TEST(Topologies, ATorusFavoursRingsOverAllToAll) {
  const Constants k;
  const Hardware &v5e = hardware_named("tpu-v5e"), &h100 = hardware_named("H100-SuperPod-256");
  EXPECT_FALSE(v5e.validated);
  EXPECT_DOUBLE_EQ(bus_rate(v5e, k, group_of(16, 1, v5e)), 2 * 50e9 * k.link);   // one axis
  EXPECT_DOUBLE_EQ(bus_rate(v5e, k, group_of(256, 1, v5e)), 4 * 50e9 * k.link);  // both
  EXPECT_DOUBLE_EQ(bisection(v5e, 256), 4 * 16 * 50e9);  // two links of each of 16 rows, both ways
  const auto ratio = [&](const Hardware& hardware) {
    const auto seconds = [&](int64_t ranks) {
      return collective_seconds(hardware, k, CollectiveKind::AllToAll, 1e10,
                                group_of(ranks, 1, hardware));
    };
    return seconds(256) / seconds(16);
  };
  EXPECT_NEAR(ratio(v5e), 4, 0.5);
  EXPECT_LT(ratio(h100), 2.2);  // the taper
}

TEST(Collectives, StaticRoutesSlowGroupsOfMoreThanEightDomains) {
  const Constants k;
  Hardware adaptive = hardware_named("A100");
  adaptive.static_routes = 0;
  for (const int64_t ranks : {64, 128}) {
    const auto seconds = [&](const Hardware& hardware) {
      return collective_seconds(hardware, k, CollectiveKind::AllGather, 1e11,
                                group_of(ranks, 1, hardware, ranks));
    };
    EXPECT_NEAR(seconds(hardware_named("A100")) / seconds(adaptive), ranks > 64 ? 1 / k.far : 1,
                0.05);
  }
  EXPECT_EQ(hardware_named("H100").static_routes, 0);
}

TEST(Collectives, OversubscribedUplinksSlowGroupsBeyondALeafSwitch) {
  const Constants k;
  Hardware wide = hardware_named("B200");
  wide.leaf = 32;
  Hardware narrow = wide;
  narrow.oversubscribed = 2;
  for (const int64_t nodes : {10, 32, 60}) {
    const auto seconds = [&](const Hardware& hardware) {
      return collective_seconds(hardware, k, CollectiveKind::AllGather, 1e12,
                                group_of(8 * nodes, 1, hardware, 8 * nodes));
    };
    EXPECT_NEAR(seconds(narrow) / seconds(wide), nodes > 32 ? 2 : 1, 0.02) << nodes;
  }
}

}  // namespace
}  // namespace sextant

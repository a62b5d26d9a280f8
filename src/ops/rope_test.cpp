#include "ops/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

struct Table {
  Tensor cos, sin;
};

template <class T>
Table table_of(Workbench& bench, int64_t positions, int64_t half,
               const RopeFrequencies& frequencies) {
  Table table{bench.empty<T>({positions, half}), bench.empty<T>({positions, half})};
  rope_table(bench.stream(), table.cos, table.sin, frequencies);
  return table;
}

// Angle of position 1 for every pair.
std::vector<double> frequencies_of(int64_t half, const RopeFrequencies& frequencies) {
  Workbench bench;
  const Table table = table_of<double>(bench, 2, half, frequencies);
  const std::vector<double> cos = bench.read<double>(table.cos),
                            sin = bench.read<double>(table.sin);
  std::vector<double> out;
  for (int64_t i = 0; i < half; ++i) out.push_back(std::atan2(sin[half + i], cos[half + i]));
  return out;
}

TEST(Rope, TableHasTheAnglesOfThetaTenThousand) {
  Workbench bench;
  // head_dim 4: frequencies 1 and 10000^(-1/2) = 0.01.
  const Table table = table_of<float>(bench, 101, 2, {});
  const std::vector<float> cos = bench.read<float>(table.cos), sin = bench.read<float>(table.sin);
  EXPECT_EQ(cos[0], 1);
  EXPECT_EQ(sin[1], 0);
  EXPECT_FLOAT_EQ(cos[2 * 3], -0.9899924966f);       // cos 3
  EXPECT_FLOAT_EQ(sin[2 * 3], 0.1411200081f);        // sin 3
  EXPECT_FLOAT_EQ(sin[2 * 3 + 1], 0.0299955002f);    // sin 0.03
  EXPECT_FLOAT_EQ(cos[2 * 100], 0.8623188723f);      // cos 100
  EXPECT_FLOAT_EQ(sin[2 * 100 + 1], 0.8414709848f);  // sin 1
}

TEST(Rope, ScalingKeepsShortWavesSlowsLongOnesAndBlendsBetween) {
  // Wave lengths of pair i: 2 pi 10^i. With 1000 positions and factors 1 and 4, those below 250
  // stay (i = 0, 1), those above 1000 are slowed (i = 3), 628.3 (i = 2) lies between.
  const RopeFrequencies plain{10000, 1, 1, 4, 1000}, scaled{10000, 8, 1, 4, 1000};
  const std::vector<double> was = frequencies_of(4, plain), is = frequencies_of(4, scaled);
  EXPECT_NEAR(was[3], 1e-3, 1e-15);
  EXPECT_DOUBLE_EQ(is[0], was[0]);
  EXPECT_DOUBLE_EQ(is[1], was[1]);
  const double keep = (1000 / (200 * std::numbers::pi) - 1) / 3;
  EXPECT_NEAR(is[2], (1 - keep) * 1e-2 / 8 + keep * 1e-2, 1e-15);
  EXPECT_NEAR(is[3], 1e-3 / 8, 1e-15);
}

TEST(Rope, LinearScalingSlowsAllWaves) {
  const std::vector<double> is = frequencies_of(4, {.factor = 8, .slowing = RopeSlowing::Linear});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(is[i], std::pow(10, -i) / 8, 1e-15) << i;
}

TEST(Rope, YarnSlowsPairsInALineAndMultipliesTheTable) {
  // In 1000 positions pair 0.70 turns 32 times and pair 2.20 once: the line goes from 0 to 3.
  RopeFrequencies yarn{.factor = 4, .original_seq = 1000, .slowing = RopeSlowing::Yarn};
  const std::vector<double> is = frequencies_of(4, yarn);
  EXPECT_NEAR(is[0], 1, 1e-15);
  EXPECT_NEAR(is[1], 0.075, 1e-15);
  EXPECT_NEAR(is[2], 0.005, 1e-15);
  EXPECT_NEAR(is[3], 0.00025, 1e-15);
  yarn.beta_fast = 1.5;  // pair 2.03: a line from 2 to 3
  EXPECT_NEAR(frequencies_of(4, yarn)[2], 0.01, 1e-15);
  yarn.attention_factor = 1.25;
  Workbench bench;
  const Table table = table_of<double>(bench, 3, 4, yarn);
  const std::vector<double> cos = bench.read<double>(table.cos),
                            sin = bench.read<double>(table.sin);
  EXPECT_EQ(cos[0], 1.25);
  for (size_t i = 0; i < cos.size(); ++i)
    EXPECT_NEAR(cos[i] * cos[i] + sin[i] * sin[i], 1.25 * 1.25, 1e-14) << i;
}

// In a context that no wave fits into, all pairs are slowed but the first; in one that all fit into
// many times, none is.
TEST(Rope, YarnsLineIsCutAtTheFirstPairAndAtTheLast) {
  RopeFrequencies yarn{.factor = 4, .original_seq = 6, .slowing = RopeSlowing::Yarn};
  std::vector<double> is = frequencies_of(4, yarn);
  EXPECT_NEAR(is[0], 1, 1e-15);
  EXPECT_NEAR(is[1], 0.1 / 4, 1e-15);
  yarn.original_seq = 1'000'000'000;
  is = frequencies_of(4, yarn);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(is[i], std::pow(10, -i), 1e-15) << i;
}

TEST(Rope, TurnsPairsOfQueriesAndKeysAndLeavesValues) {
  Workbench bench;
  const Heads heads{1, 2, 1, 1, 4};
  Tensor qkv = bench.make<double>({2, 12}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,  //
                                            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor positions = bench.make<int32_t>({2}, {0, 3});
  const Table table = table_of<double>(bench, 4, 2, {});
  rope(bench.stream(), qkv, positions, table.cos, table.sin, heads, RopeDirection::Forward);
  const std::vector<double> x = bench.read<double>(qkv);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(x[i], i + 1) << i;  // position 0 does not turn
  const double angle[] = {3, 0.03};
  for (int pair = 0; pair < 2; ++pair)
    for (int head = 0; head < 2; ++head) {
      const double x1 = 1 + head * 4 + pair, x2 = x1 + 2;
      const double c = std::cos(angle[pair]), s = std::sin(angle[pair]);
      EXPECT_NEAR(x[12 + head * 4 + pair], x1 * c - x2 * s, 1e-14);
      EXPECT_NEAR(x[12 + head * 4 + pair + 2], x2 * c + x1 * s, 1e-14);
    }
  for (int i = 8; i < 12; ++i) EXPECT_EQ(x[12 + i], i + 1) << i;
}

TEST(Rope, KeepsLengthsAndBackwardTurnsBack) {
  Workbench bench(2);
  const Heads heads{2, 37, 6, 2, 20};
  const Tensor before = bench.random<double>({heads.tokens(), heads.qkv_width()}, "qkv");
  Tensor qkv = bench.empty<double>(before.shape());
  copy(bench.stream(), qkv, before);
  std::vector<int32_t> at(static_cast<size_t>(heads.tokens()));
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int32_t>((i * 7) % 50);
  const Tensor positions = bench.make<int32_t>({heads.tokens()}, at);
  const Table table = table_of<double>(bench, 50, 10, {500000, 8, 1, 4, 30});
  rope(bench.stream(), qkv, positions, table.cos, table.sin, heads, RopeDirection::Forward);
  const std::vector<double> x = bench.read<double>(before), y = bench.read<double>(qkv);
  EXPECT_NE(x, y);
  for (size_t head = 0; head < x.size(); head += 20) {
    double was = 0, is = 0;
    for (size_t i = head; i < head + 20; ++i) was += x[i] * x[i], is += y[i] * y[i];
    EXPECT_NEAR(is, was, 1e-12);
  }
  rope(bench.stream(), qkv, positions, table.cos, table.sin, heads, RopeDirection::Backward);
  const std::vector<double> z = bench.read<double>(qkv);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(z[i], x[i], 1e-13) << i;
}

TEST(Rope, BackwardIsTheTransposeOfForward) {
  // A rotation R is linear: the gradient of sum(R x * d) with respect to x is R^T d, so
  // sum(R x * d) = sum(x * R^T d) for all x and d.
  Workbench bench;
  const Heads heads{1, 9, 2, 1, 8};
  const Shape shape{heads.tokens(), heads.qkv_width()};
  Tensor forward = bench.random<double>(shape, "x"), backward = bench.random<double>(shape, "d");
  const std::vector<double> x = bench.read<double>(forward), d = bench.read<double>(backward);
  const Tensor positions = bench.make<int32_t>({9}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const Table t = table_of<double>(bench, 9, 4, {});
  rope(bench.stream(), forward, positions, t.cos, t.sin, heads, RopeDirection::Forward);
  rope(bench.stream(), backward, positions, t.cos, t.sin, heads, RopeDirection::Backward);
  const std::vector<double> rx = bench.read<double>(forward), rd = bench.read<double>(backward);
  for (int64_t token = 0; token < 9; ++token) {
    double left = 0, right = 0;
    for (int64_t i = token * heads.qkv_width(); i < (token + 1) * heads.qkv_width(); ++i) {
      left += rx[i] * d[i];
      right += x[i] * rd[i];
    }
    EXPECT_NEAR(left, right, 1e-12) << token;
  }
}

TEST(Rope, AnyNumberOfThreadsGivesTheSameBits) {
  const Heads heads{2, 75, 4, 2, 64};
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3}) {
    Workbench bench(threads);
    Tensor qkv = bench.random<float>({heads.tokens(), heads.qkv_width()}, "qkv");
    std::vector<int32_t> at(static_cast<size_t>(heads.tokens()));
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int32_t>(i % 75);
    const Table t = table_of<float>(bench, 75, 32, {});
    rope(bench.stream(), qkv, bench.make<int32_t>({heads.tokens()}, at), t.cos, t.sin, heads,
         RopeDirection::Forward);
    if (threads == 1) first = bench.bytes(qkv);
    EXPECT_EQ(bench.bytes(qkv), first) << threads << " threads";
  }
}

TEST(Rope, ReportsTheFirstPositionOutsideTheTableAndUsesTheNearestRow) {
  const int64_t tokens = 200;  // pieces of several threads
  const Heads heads{1, tokens, 2, 1, 8};
  for (const int threads : {1, 3}) {
    Workbench bench(threads, DeviceKind::Guarded);
    const Table t = table_of<float>(bench, 50, 4, {});
    const auto turned = [&](const std::vector<int32_t>& at) {
      Tensor qkv = bench.random<float>({tokens, heads.qkv_width()}, "qkv");
      rope(bench.stream(), qkv, bench.make<int32_t>({tokens}, at), t.cos, t.sin, heads,
           RopeDirection::Forward);
      return bench.bytes(qkv);
    };
    std::vector<int32_t> bad, clamped;
    for (int32_t i = 0; i < tokens; ++i) {
      bad.push_back(i % 2 == 0 ? i : 40 - i);
      clamped.push_back(std::clamp(bad.back(), 0, 49));
    }
    const std::vector<std::byte> wanted = turned(clamped);
    bench.stream().check_data();
    EXPECT_EQ(turned(bad), wanted);
    EXPECT_ERROR(bench.stream().check_data(), Usage,
                 "rope: position -1 of token 41, the table has 50");
  }
}

TEST(Rope, AnEmptyTableIsReported) {
  Workbench bench;
  Tensor qkv = bench.random<float>({2, 32}, "qkv");
  const std::vector<std::byte> before = bench.bytes(qkv);
  const Tensor none = bench.empty<float>({0, 4});
  rope(bench.stream(), qkv, bench.make<int32_t>({2}, {0, 1}), none, none, {1, 2, 2, 1, 8},
       RopeDirection::Forward);
  EXPECT_ERROR(bench.stream().check_data(), Usage, "position 0 of token 0, the table has 0");
  EXPECT_EQ(bench.bytes(qkv), before);
}

TEST(Rope, RefusesWhatDoesNotFitTogether) {
  Workbench bench;
  Stream& stream = bench.stream();
  const Heads heads{1, 2, 2, 1, 8};
  Tensor qkv = bench.random<float>({2, 32}, "qkv");
  const Tensor positions = bench.make<int32_t>({2}, {0, 1});
  Table t = table_of<float>(bench, 2, 4, {}), narrow = table_of<float>(bench, 2, 3, {});
  const Table wide = table_of<double>(bench, 2, 4, {});
  const auto turn = [&](const Tensor& at, const Table& table) {
    rope(stream, qkv, at, table.cos, table.sin, heads, RopeDirection::Forward);
  };
  EXPECT_ERROR(turn(positions, narrow), Usage, "cos is [2, 3], must be [positions, 4]");
  EXPECT_ERROR(turn(positions, wide), Usage, "cos is f64");
  EXPECT_ERROR(turn(t.cos, t), Usage, "positions is f32");
  EXPECT_ERROR(rope_table(stream, t.cos, narrow.sin, {}), Usage, "sin is");
  EXPECT_ERROR(rope_table(stream, t.cos, t.sin, {.theta = 0}), Usage, "theta=0");
  EXPECT_ERROR(
      rope_table(stream, t.cos, t.sin, {.factor = 8, .low_freq_factor = 4, .high_freq_factor = 4}),
      Usage, "low_freq_factor < high_freq_factor");
}

}  // namespace
}  // namespace sextant

// Makespan, bubble and memory of generated schedules against published numbers and closed forms, in
// the plain cost model of tests/support/schedule_oracle.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "schedule/generators.h"
#include "schedule/make_schedule.h"
#include "support/counts.h"
#include "support/schedule_oracle.h"

namespace sextant {
namespace {

struct Row {
  const char* title;
  Schedule schedule;
  OracleTimes times;
  double makespan;
  std::vector<double> idle;
  std::vector<int> peak;
};

std::vector<Row> table() {
  return {
      {"gpipe", gpipe(4, 8), {}, 33, {9, 6, 3, 0}, {8, 8, 8, 8}},
      {"1f1b", one_f_one_b(4, 8), {}, 33, {9, 6, 3, 0}, {4, 3, 2, 1}},
      {"interleaved", interleaved(4, 8, 2, 4), {}, 57, {9, 6, 3, 0}, {11, 9, 7, 5}},
      {"looped-bfs", looped_bfs(4, 8, 2), {}, 57, {9, 6, 3, 0}, {16, 16, 16, 16}},
      {"interleaved-zb", interleaved_zb(4, 8, 2, 4), {}, 51, {3, 2, 1, 0}, {8, 8, 8, 8}},
      {"zb-h1", zb_h1(4, 8), {}, 27, {3, 2, 1, 0}, {4, 4, 4, 4}},
      {"zb-h2", zb_h2(4, 8), {}, 27, {0, 0, 0, 0}, {7, 7, 7, 7}},
      {"zb-v", zb_v(4, 8), {}, 51, {0, 0, 0, 0}, {8, 8, 8, 8}},
      {"v-half", v_half(4, 8), {}, 53, {5, 3, 3, 2}, {6, 6, 6, 6}},
      {"v-min", v_min(4, 8), {}, 59, {11, 9, 7, 6}, {4, 4, 4, 4}},
      {"dualpipe", dualpipe(4, 8), {}, 25, {1, 0, 0, 1}, {5, 5, 5, 5}},
      {"dualpipe of 8", dualpipe(8, 20), {}, 63, {3, 2, 1, 0, 0, 1, 2, 3}, std::vector<int>(8, 9)},
      {"dualpipe, atomic",
       dualpipe(8, 20),
       {.joined = 3},
       66,
       {6, 5, 4, 3, 3, 4, 5, 6},
       std::vector<int>(8, 9)},
      {"dualpipe-v", dualpipe_v(4, 10), {}, 63, {3, 2, 1, 0}, {9, 9, 9, 9}},
      {"dualpipe-v, atomic", dualpipe_v(4, 10), {.joined = 3}, 66, {6, 5, 4, 3}, {9, 9, 9, 9}},
  };
}

TEST(Bubbles, MakespanIdleAndPeakAreThoseOfTheTable) {
  for (const Row& row : table()) {
    const OracleResult result = run_oracle(row.schedule, row.times);
    EXPECT_TRUE(result.finished) << row.title;
    EXPECT_EQ(result.makespan, row.makespan) << row.title;
    EXPECT_EQ(result.idle, row.idle) << row.title;
    EXPECT_EQ(result.peak, row.peak) << row.title;
  }
}

constexpr OracleTimes kReal = {10, 12, 8};

TEST(Bubbles, UnequalTimesGiveThePublishedSpans) {
  for (const int p : {4, 8}) {
    const double bubble = p - 1;
    EXPECT_EQ(run_oracle(one_f_one_b(p, 2 * p), kReal).span_bubble, bubble * 30);
    EXPECT_EQ(run_oracle(zb_h1(p, 2 * p), kReal).span_bubble, bubble * 14);
    EXPECT_EQ(run_oracle(zb_h2(p, 2 * p), kReal).span_bubble, bubble * 6);
  }
}

TEST(Bubbles, SlowWeightHalvesExceedTheClosedForm) {
  const OracleTimes slow = {10, 8, 12};
  EXPECT_EQ(run_oracle(zb_h1(4, 8), slow).span_bubble, 24);
  EXPECT_EQ(run_oracle(zb_h2(4, 8), slow).span_bubble, 0);
}

TEST(Bubbles, ClosedFormsHoldWhileWeightHalvesAreTheShortest) {
  const Random random(7, "closed forms");
  const int cases = random_cases(60, 2000);
  for (int i = 0; i < cases; ++i) {
    const auto draw = [&](int bound, uint32_t purpose) {
      return static_cast<int>(random.below(bound, i, purpose));
    };
    const int p = 2 + draw(7, 0), v = 1 + draw(4, 1);
    const int m = 2 * p - 1 + draw(10, 2), rounds = 2 + draw(3, 3);
    const double w = 1 + draw(9, 4), f = w + draw(6, 5), b = w + draw(6, 6);
    const OracleTimes times = {f, b, w};
    const auto span = [&](const Schedule& schedule) {
      return run_oracle(schedule, times).span_bubble;
    };
    EXPECT_EQ(span(gpipe(p, m)), (p - 1) * (f + b + w));
    EXPECT_EQ(span(one_f_one_b(p, m)), (p - 1) * (f + b + w));
    EXPECT_EQ(span(zb_h1(p, m)), (p - 1) * (f + b - w));
    EXPECT_EQ(span(zb_h2(p, m)), (p - 1) * (f + b - 2 * w));
    // Times are per chunk here: 1 / v of a rank's.
    EXPECT_EQ(span(looped_bfs(p, m, v)), (p - 1) * (f + b + w));
    EXPECT_EQ(span(interleaved(p, rounds * p, v, p)), (p - 1) * (f + b + w));
  }
}

TEST(Bubbles, PeaksHaveTheirClosedForms) {
  for (int p = 2; p <= 8; ++p) {
    const int m = 2 * p, v = 3;
    const std::vector<int> one = run_oracle(one_f_one_b(p, m)).peak;
    const std::vector<int> deep = run_oracle(interleaved(p, m, v, p)).peak;
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(one[r], p - r);
      EXPECT_EQ(deep[r], 2 * (p - 1 - r) + (v - 1) * p + 1);
    }
    const std::vector<int> flat(p, p * v);
    EXPECT_EQ(run_oracle(interleaved_zb(p, m, v, p)).peak, flat);
    // Memory freed by the input gradient included: (p - r) M_B + r M_W, and twice that less one.
    const std::vector<StageCost> costs = {{.activation_memory = 5, .memory_for_weight_grad = 2}};
    const std::vector<double> h1 = peak_memory(zb_h1(p, m), costs);
    const std::vector<double> h2 = peak_memory(zb_h2(p, m), costs);
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(h1[r], (p - r) * 5 + r * 2);
      EXPECT_EQ(h2[r], (2 * p - 1 - 2 * r) * 5 + 2 * r * 2);
    }
  }
}

TEST(Bubbles, ZbAutoReachesItsPublishedSpans) {
  struct Case {
    double f, b, w, comm, limit, bubble;
  };
  for (const Case& c : std::vector<Case>{{10, 12, 8, 0, 8, 98},
                                         {10, 12, 8, 0, 12, 44},
                                         {10, 12, 8, 0, 16, 8},
                                         {18, 21, 13, 2, 8, 238},
                                         {18, 21, 13, 2, 12, 103},
                                         {18, 21, 13, 2, 16, 35}}) {
    const ScheduleRequest request = {.name = "zb-auto",
                                     .ranks = 8,
                                     .micros = 24,
                                     .costs = {{c.f, c.b, c.w, 1, 0.5}},
                                     .message_time = c.comm,
                                     .memory_limit = c.limit};
    const OracleResult result = run_oracle(make_schedule(request), {c.f, c.b, c.w, c.comm});
    EXPECT_EQ(result.span_bubble, c.bubble) << c.f << " within " << c.limit;
  }
}

// With any one choice fixed, these would be 10, 16, 8 and 29.
TEST(Bubbles, ZbAutoNeedsAllItsChoices) {
  const auto span = [](int p, StageCost cost, double limit) {
    const std::vector<StageCost> costs(static_cast<size_t>(p), cost);
    return run_oracle(zb_auto(2 * p, costs, 0, limit),
                      {cost.forward_time, cost.input_grad_time, cost.weight_grad_time})
        .span_bubble;
  };
  EXPECT_EQ(span(3, {10, 12, 8}, 5.25), 8);
  EXPECT_EQ(span(4, {10, 8, 12}, 5), 14);
  EXPECT_EQ(span(4, {10, 8, 12}, 7), 0);
  EXPECT_EQ(span(4, {18, 21, 13}, 8), 26);
}

TEST(Bubbles, ZbAutoIsH1InItsMemoryAndWithoutBubbleInTwice) {
  ScheduleRequest request = {.name = "zb-auto", .ranks = 4, .micros = 8, .memory_limit = 4};
  EXPECT_EQ(make_schedule(request).ranks, zb_h1(4, 8).ranks);
  request.memory_limit = 0;
  EXPECT_EQ(run_oracle(make_schedule(request)).span_bubble, 0);
}

TEST(Bubbles, SearchedZbVReachesItsPublishedIdleTimes) {
  struct Case {
    int ranks;
    OracleTimes times;
    double idle;
  };
  for (const Case& c : std::vector<Case>{{4, {10, 12, 8, 0}, 16},
                                         {8, {10, 12, 8, 0}, 48},
                                         {4, {10, 14, 6, 1}, 58},
                                         {8, {10, 14, 6, 1}, 146}})
    for (const int m : {2 * c.ranks, 2 * c.ranks + 5, 4 * c.ranks}) {
      const ScheduleRequest request = {.name = "zb-v",
                                       .ranks = c.ranks,
                                       .micros = m,
                                       .costs = {{c.times.f, c.times.b, c.times.w}},
                                       .message_time = c.times.comm};
      const OracleResult result = run_oracle(make_schedule(request), c.times);
      EXPECT_EQ(std::ranges::max(result.idle), c.idle) << c.ranks << " ranks, " << m;
      EXPECT_EQ(std::ranges::max(result.peak), 2 * c.ranks);
    }
}

TEST(Bubbles, FewMicrosLeaveHolesInHandMadeZbVOnly) {
  EXPECT_EQ(run_oracle(zb_v(4, 4)).makespan, 30);
  EXPECT_EQ(run_oracle(zb_v_greedy(4, 4, {}, 0, 8)).makespan, 27);
}

TEST(Bubbles, ZbVIsWithoutGapsAtEqualTimes) {
  for (int p = 2; p <= 8; ++p)
    for (const int m : {2 * p - 1, 3 * p}) {
      const OracleResult result = run_oracle(zb_v(p, m));
      EXPECT_EQ(result.makespan, 6 * m + p - 1);
      EXPECT_EQ(result.idle, std::vector<double>(p, 0));
      EXPECT_EQ(result.peak, std::vector<int>(p, 2 * p));
    }
}

TEST(Bubbles, VHalfAndVMinHaveTheirClosedForms) {
  for (int p = 3; p <= 10; ++p)
    for (const int m : {2 * p, 2 * p + 3}) {
      const OracleResult half = run_oracle(v_half(p, m)), least = run_oracle(v_min(p, m));
      EXPECT_EQ(half.span_bubble, p % 2 == 0 ? 3 * p - 7 : 3 * p - 4) << p;
      EXPECT_EQ(std::ranges::max(half.peak), 2 * ((p + 2) / 2)) << p;
      EXPECT_EQ(least.span_bubble, p % 3 == 0 ? 4 * p - 7 : 4 * p - 5) << p;
      EXPECT_EQ(std::ranges::max(least.peak), 2 * ((p + 4) / 3)) << p;
    }
}

TEST(Bubbles, UnequalTimesGrowVMinsBubbleAndNotVHalfs) {
  const int micros[] = {8, 16, 32};
  const double least[] = {208, 304, 496};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_oracle(v_half(4, micros[i]), kReal).span_bubble, 78);
    EXPECT_EQ(run_oracle(v_min(4, micros[i]), kReal).span_bubble, least[i]);
  }
}

TEST(Bubbles, JoinedBlocksStayBelowThePublishedEstimate) {
  const OracleTimes times = {10, 12, 8, 0, 30};
  EXPECT_EQ(run_oracle(dualpipe_v(4, 10), times).span_bubble, 72);
  EXPECT_EQ(run_oracle(dualpipe(8, 20), times).span_bubble, 72);
}

TEST(Bubbles, SerialBlocksHaveTheirClosedFormAndPeak) {
  for (int half = 1; half <= 5; ++half) {
    const int m = 2 * half + 3;
    const OracleResult folded = run_oracle(dualpipe_v(half, m));
    EXPECT_EQ(folded.span_bubble, half - 1);
    EXPECT_EQ(folded.peak, std::vector<int>(half, 2 * half + 1));
    const OracleResult dual = run_oracle(dualpipe(2 * half, 2 * m));
    EXPECT_EQ(dual.span_bubble, half - 1);
    EXPECT_EQ(dual.peak, std::vector<int>(2 * half, 2 * half + 1));
  }
}

}  // namespace
}  // namespace sextant

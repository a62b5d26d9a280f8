#include "trace/op_times.h"

#include <gtest/gtest.h>

#include "trace/spans.h"

namespace sextant {
namespace {

TraceOp op(const char* name, double flops, int64_t read, int64_t written, int lane = 0) {
  TraceOp out;
  out.name = name;
  out.flops = flops;
  out.read = read;
  out.written = written;
  out.lane = lane;
  return out;
}

// Two products of 2 and 3 ms, a norm of 1 ms beside a reduction of 2 ms; 10 ms in all.
struct Step {
  Trace trace;
  std::vector<OpTime> times;
  Step() {
    trace.lanes.push_back({"dp", TraceLane::Kind::Collective, "dp"});
    trace.ops = {op("matmul", 4e9, 100, 50), op("rmsnorm", 1e6, 30, 20),
                 op("all_reduce", 0, 8000, 8000, 1), op("matmul", 6e9, 200, 50),
                 op("copy_from_host", 0, 0, 7)};
    times = {{1.000, 1.002}, {1.003, 1.004}, {1.003, 1.005}, {1.005, 1.008}, {}};
  }
};

TEST(OpTable, AddsUpTheOperationsOfAClass) {
  const Step step;
  const OpTable table = op_table(step.trace, step.times, 0.010);
  ASSERT_EQ(table.classes.size(), 3U);  // the copy has no time
  EXPECT_EQ(table.classes[0].name, "matmul");
  EXPECT_EQ(table.classes[0].count, 2);
  EXPECT_NEAR(table.classes[0].seconds, 0.005, 1e-12);
  EXPECT_NEAR(table.classes[0].flops_per_s(), 2e12, 1e3);
  EXPECT_NEAR(table.classes[0].bytes_per_s(), 400 / 0.005, 1e-3);
  EXPECT_EQ(table.classes[1].name, "all_reduce");
  EXPECT_FALSE(table.classes[1].is_compute);
  EXPECT_EQ(table.classes[2].name, "rmsnorm");
}

TEST(OpTable, CountsOperationsBesideEachOtherOnceInTheTimeWithoutAny) {
  const Step step;
  EXPECT_NEAR(op_table(step.trace, step.times, 0.010).idle_s, 0.010 - 0.007, 1e-12);
  EXPECT_NEAR(op_table(step.trace, step.times, 0.001).idle_s, 0, 1e-12);
  EXPECT_NEAR(op_table(Trace{}, {}, 0.5).idle_s, 0.5, 1e-12);
}

TEST(OpTable, IsPrintedWithRates) {
  const Step step;
  EXPECT_EQ(to_text(op_table(step.trace, step.times, 0.010)),
            "operation           count      ms  % of step  TFLOP/s  TB/s\n"
            "matmul                  2   5.000       50.0      2.0  0.00\n"
            "all_reduce              1   2.000       20.0           0.00\n"
            "rmsnorm                 1   1.000       10.0      0.0  0.00\n"
            "without operations          3.000       30.0\n"
            "step                       10.000\n");
}

// At 2 TFLOP/s and 50 kB/s a product is bound by its FLOPs or by its bytes, whichever takes longer.
TEST(OpTable, AddsUpTheFloorsOfOperations) {
  Step step;
  const Ceilings ceilings{2e12, 50e3};
  const OpTable table = op_table(step.trace, step.times, 0.010, ceilings);
  EXPECT_NEAR(table.classes[0].floor_s, 150 / 50e3 + 250 / 50e3, 1e-12);
  EXPECT_EQ(table.classes[1].floor_s, 0);  // another lane
  EXPECT_NEAR(table.classes[2].floor_s, 50 / 50e3, 1e-12);
  step.trace.ops[0].flops = 8e9;
  EXPECT_NEAR(op_table(step.trace, step.times, 0.010, ceilings).classes[0].floor_s,
              8e9 / 2e12 + 250 / 50e3, 1e-12);
  EXPECT_EQ(to_text(op_table(step.trace, step.times, 0.010, {2e12, 500e3})),
            "operation           count      ms  % of step  TFLOP/s  TB/s  floor ms  left ms\n"
            "matmul                  2   5.000       50.0      2.8  0.00     7.000   -2.000\n"
            "all_reduce              1   2.000       20.0           0.00     0.000    2.000\n"
            "rmsnorm                 1   1.000       10.0      0.0  0.00     0.100    0.900\n"
            "without operations          3.000       30.0                    0.000    3.000\n"
            "step                       10.000                               7.100    2.900\n");
}

TEST(OpTable, HasPredictionsBesideTheTimes) {
  const Step step;
  const OpTable table = op_table(step.trace, step.times, 0.010, {},
                                 [](const TraceOp& op) { return op.flops > 0 ? 0.002 : 0.001; });
  EXPECT_NEAR(table.classes[0].predicted_s, 0.004, 1e-12);
  EXPECT_EQ(to_text(table),
            "operation           count      ms  % of step  TFLOP/s  TB/s  predicted ms\n"
            "matmul                  2   5.000       50.0      2.0  0.00         4.000\n"
            "all_reduce              1   2.000       20.0           0.00         1.000\n"
            "rmsnorm                 1   1.000       10.0      0.0  0.00         2.000\n"
            "without operations          3.000       30.0                        0.000\n"
            "step                       10.000                                   7.000\n");
}

TEST(OpTimes, BecomeSpansOnLanesOfTheDevice) {
  const Step step;
  const std::vector<Span> spans = device_spans_of(step.trace, step.times, 3);
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].lane, kDeviceLane);
  EXPECT_EQ(std::string(spans[0].kind), "kernel");
  EXPECT_EQ(spans[0].rank, 3);
  EXPECT_EQ(spans[2].name, "all_reduce dp");
  EXPECT_EQ(spans[2].lane, kDeviceLane + 1);
  EXPECT_EQ(spans[2].begin, 1.003);
  EXPECT_EQ(spans[2].end, 1.005);
}

}  // namespace
}  // namespace sextant

#include "trace/recorder.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

void record(TraceRecorder& recorder, double flops) {
  TraceOperand operand;
  operand.end = 64;
  recorder.begin("matmul", Trace::kCompute);
  recorder.operand(operand);
  recorder.operand(operand);
  recorder.end().flops = flops;
  recorder.memory({});
}

TEST(TraceRecorder, ForgetsOperandsOnceAnOperationIsComplete) {
  TraceRecorder recorder;
  std::vector<double> flops;
  recorder.forget_operands([&](const Trace& trace, const TraceOp& op) {
    EXPECT_EQ(trace.operands_of(op).size(), 2u);
    EXPECT_EQ(trace.operands_of(op)[0].end, 64);
    flops.push_back(op.flops);
  });
  for (const double count : {3, 5, 7}) record(recorder, count);
  EXPECT_EQ(flops, (std::vector<double>{3, 5}));  // the costs of the last one may still be set
  const Trace trace = recorder.take();
  EXPECT_EQ(flops, (std::vector<double>{3, 5, 7}));
  ASSERT_EQ(trace.ops.size(), 3u);
  EXPECT_EQ(trace.ops[2].flops, 7);
  EXPECT_TRUE(trace.operands_of(trace.ops[2]).empty());
  EXPECT_TRUE(trace.operand_list.empty() && trace.memory.empty());
  record(recorder, 9);  // a second trace
  recorder.take();
  EXPECT_EQ(flops.back(), 9);
}

TEST(TraceRecorder, ABudgetEndsATrace) {
  TraceRecorder recorder;
  Budget budget(1000, "more than 1000 bytes");
  recorder.set_budget(&budget);
  EXPECT_ERROR(for (int i = 0; i < 1000; ++i) record(recorder, 1), Config, "more than 1000 bytes");
}

}  // namespace
}  // namespace sextant

#include "trace/print.h"

#include <gtest/gtest.h>

#include "trace/recorder.h"

namespace sextant {
namespace {

Trace small_trace() {
  TraceRecorder recorder;
  const RecordedScope scope(&recorder, {3, 1, "forward"});
  recorder.begin("matmul", Trace::kCompute);
  TraceOperand operand;
  operand.shape = {2, 4};
  operand.dims = 2;
  recorder.operand(operand);
  operand.dtype = DType::BF16;
  operand.is_written = true;
  recorder.operand(operand);
  recorder.end().flops = 64;
  recorder.begin("all_reduce", recorder.lane({"dp"}));
  recorder.end().sent = 8;
  recorder.wait_for(recorder.last());
  recorder.begin("add", Trace::kCompute);
  recorder.end().read = 2048;
  return recorder.take();
}

TEST(TraceText, HasALineForEachOperationAndSumsByLane) {
  EXPECT_EQ(trace_text(small_trace(), 0, 3),
            "op  lane     operation   layer  micro  pass     FLOPs  read     written  sent  "
            "waits for  operands\n"
            "#0  compute  matmul      3      1      forward  64     -        -        -     "
            "-          f32 [2, 4] -> bf16 [2, 4]\n"
            "#1  dp       all_reduce  3      1      forward  -      -        -        32 B  #0\n"
            "#2  compute  add         3      1      forward  -      2.0 KiB  -        -     #1\n"
            "\n"
            "lane     operations  FLOPs     read  written  sent\n"
            "compute           2     64  2.0 KiB        -     -\n"
            "dp                1      -        -        -  32 B\n");
}

TEST(TraceText, ListsFourOperandsOfMany) {
  TraceRecorder recorder;
  recorder.begin("adamw", Trace::kCompute);
  for (int i = 0; i < 6; ++i) {
    TraceOperand operand;
    operand.dims = 1;
    operand.shape[0] = i;
    recorder.operand(operand);
  }
  recorder.end();
  EXPECT_NE(
      trace_text(recorder.take(), 0, 1).find("f32 [0], f32 [1], f32 [2], f32 [3] and 2 more\n"),
      std::string::npos);
}

}  // namespace
}  // namespace sextant

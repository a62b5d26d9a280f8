#include "sim/rates.h"

#include <gtest/gtest.h>

#include "trace/recorder.h"

namespace sextant {
namespace {

constexpr Rates kRates{.flops = 100, .memory = 10, .launch = 1, .link = 4, .latency = 3};

// Seconds of a single operation.
double seconds(const TraceLane& lane, const char* name, const TraceOp& costs) {
  TraceRecorder recorder;
  recorder.begin(name, recorder.lane(lane));
  TraceOp& op = recorder.end();
  op.flops = costs.flops;
  op.read = costs.read;
  op.written = costs.written;
  op.sent = costs.sent;
  op.sent_as = costs.sent_as;
  const Trace trace = recorder.take();
  return seconds_of(kRates, trace, trace.ops[0]);
}

TEST(Rates, ComputeIsBoundByArithmeticOrByMemory) {
  EXPECT_DOUBLE_EQ(seconds({"compute"}, "matmul", {.flops = 500, .read = 10, .written = 10}), 6);
  EXPECT_DOUBLE_EQ(seconds({"compute"}, "matmul", {.flops = 500, .read = 70, .written = 20}), 10);
  EXPECT_DOUBLE_EQ(seconds({"compute"}, "nothing", {}), 1);
}

TEST(Rates, CopiesToTheHostGoAtItsRate) {
  TraceRecorder recorder;
  recorder.lane({"compute"});
  recorder.begin("store", recorder.lane({"copy"}));
  TraceOp& op = recorder.end();
  op.read = op.written = 40;
  const Trace trace = recorder.take();
  Rates rates = kRates;
  EXPECT_DOUBLE_EQ(seconds_of(rates, trace, trace.ops[0]), 1 + 80 / 10);
  rates.host = 5;
  EXPECT_DOUBLE_EQ(seconds_of(rates, trace, trace.ops[0]), 1 + 40 / 5);
}

TEST(Rates, MessagesAndCollectivesTakeLatencyAndTheBytesThatLeave) {
  using enum TraceLane::Kind;
  const std::vector<int> pair = {0, 1};
  EXPECT_DOUBLE_EQ(seconds({"pp send 1", Send, "pp", pair}, "send", {.sent = 5}), 3 + 5);
  EXPECT_DOUBLE_EQ(
      seconds({"pp send 1", Send, "pp", pair}, "send", {.sent = 6, .sent_as = DType::BF16}), 3 + 3);
  EXPECT_DOUBLE_EQ(seconds({"pp receive 1", Receive, "pp", pair}, "receive", {}), 0);
  EXPECT_DOUBLE_EQ(seconds({"dp", Collective, "dp", pair}, "all_gather", {.sent = 5}), 3 + 5);
  EXPECT_DOUBLE_EQ(seconds({"dp", Collective, "dp", pair}, "all_reduce", {.sent = 5}), 6 + 5);
}

TEST(Rates, ACollectiveOfOneRankCostsWhatItCopies) {
  for (const int64_t to : {0, 64}) {
    TraceRecorder recorder;
    recorder.begin("all_gather", recorder.lane({"dp", TraceLane::Kind::Collective, "dp", {0}}));
    recorder.operand({.begin = 0, .end = 40});
    recorder.operand({.begin = to, .end = to + 40, .is_written = true});
    TraceOp& op = recorder.end();
    op.read = op.written = 40;
    const Trace trace = recorder.take();
    EXPECT_DOUBLE_EQ(seconds_of(kRates, trace, trace.ops[0]), to == 0 ? 0 : 1 + 8);
  }
}

}  // namespace
}  // namespace sextant

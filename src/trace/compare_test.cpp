#include "trace/compare.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trace/recorder.h"
#include "trace/spans.h"

namespace sextant {
namespace {

Trace make(double flops, bool waits, int64_t begin = 0) {
  TraceRecorder recorder;
  const RecordedScope scope(&recorder, {3, 1, "forward"});
  recorder.begin("matmul", Trace::kCompute);
  TraceOperand operand;
  operand.begin = begin;
  operand.end = begin + 32;
  operand.shape = {2, 4};
  operand.dims = 2;
  operand.is_written = true;
  recorder.operand(operand);
  recorder.end().flops = flops;
  recorder.begin("all_reduce", recorder.lane({"dp"}));
  recorder.end().sent = 8;
  if (waits) recorder.wait_for(recorder.last());
  recorder.memory({TraceMemory::Kind::Take, Category::Weights, Category::Weights, 0, 0, 32});
  recorder.begin("add", Trace::kCompute);
  recorder.end();
  return recorder.take();
}

TEST(TraceCompare, EqualTracesHaveNoDifference) {
  EXPECT_EQ(first_difference(make(64, true), make(64, true)), "");
}

TEST(TraceCompare, NamesTheFirstOperationThatDiffers) {
  const std::string text = first_difference(make(64, true), make(65, true));
  EXPECT_EQ(text.substr(0, text.find(" against")),
            "compute #0: compute matmul -> f32 [2, 4] at 0 (layer 3, micro 1, forward)");
  EXPECT_NE(first_difference(make(64, true), make(64, true, 64)), "");
}

TEST(TraceCompare, NamesAWaitThatIsMissing) {
  EXPECT_EQ(first_difference(make(64, true), make(64, false)),
            "compute #1: compute add (layer 3, micro 1, forward) waits for other operations");
}

TEST(TraceCompare, NamesWhatIsMissingAtAnEndAndInMemory) {
  Trace shorter = make(64, true);
  shorter.ops.pop_back();
  EXPECT_EQ(first_difference(make(64, true), shorter), "compute: 2 operations against 1");
  Trace other = make(64, true);
  other.memory[0].bytes = 31;
  EXPECT_EQ(first_difference(make(64, true), other), "memory event 0 of 1 and 1");
  Trace more = make(64, true);
  more.lanes.push_back({"pp send"});
  more.ops.push_back({.name = "send", .lane = 2});
  EXPECT_EQ(first_difference(make(64, true), more), "pp send: no operation against 1");
}

TEST(TraceCompare, NamesALaneOfOtherRanks) {
  Trace other = make(64, true);
  other.lanes[1].ranks = {0, 2};
  EXPECT_EQ(first_difference(make(64, true), other), "dp: of other ranks, or of another kind");
}

TEST(TraceSpans, AreOneUnitEachInTheOrderOfIssue) {
  const std::vector<Span> spans = spans_of(make(64, true), 5);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].name, "matmul (layer 3, micro 1, forward)");
  EXPECT_EQ(spans[1].name, "all_reduce dp (layer 3, micro 1, forward)");
  EXPECT_STREQ(spans[1].kind, "comm");
  EXPECT_EQ(spans[1].lane, 1);
  EXPECT_EQ(spans[2].rank, 5);
  EXPECT_GT(spans[2].begin, spans[1].begin);
  EXPECT_EQ(spans[1].lane_name, "dp");
}

TEST(TraceSpans, HaveOperandsCostsAndWaits) {
  const Trace trace = make(64, true);
  const std::vector<Span> spans = spans_of(trace, 5);
  const auto fact = [&](size_t span, const std::string& name) {
    const auto found = std::ranges::find(spans[span].facts, name, &SpanFact::name);
    return found == spans[span].facts.end() ? SpanFact{} : *found;
  };
  EXPECT_EQ(fact(0, "writes").texts, std::vector<std::string>{"f32 [2, 4]"});
  EXPECT_TRUE(fact(0, "reads").texts.empty());
  EXPECT_EQ(fact(0, "flops").number, 64);
  EXPECT_EQ(fact(1, "sent_elements").number, 8);
  EXPECT_EQ(fact(1, "waits_for").texts, std::vector<std::string>{"#0 matmul"});
  EXPECT_EQ(fact(2, "waits_for").texts, std::vector<std::string>{"#1 all_reduce dp"});
  ASSERT_EQ(spans[2].waits.size(), 1U);
  EXPECT_EQ(spans[2].waits[0].lane, 1);
  EXPECT_EQ(spans[2].waits[0].end, spans[1].end);
  // Without those that are not drawn.
  const std::vector<Span> last = spans_of(trace, 5, 2, 3, [](size_t) { return OpInterval{0, 1}; });
  ASSERT_EQ(last.size(), 1U);
  EXPECT_TRUE(last[0].waits.empty());
}

}  // namespace
}  // namespace sextant

#include "trace/race.h"

#include <gtest/gtest.h>

#include "trace/recorder.h"

namespace sextant {
namespace {

// Operations by hand, each with one operand.
class RaceTest : public testing::Test {
 protected:
  uint32_t op(const char* name, int lane, int64_t begin, int64_t end, bool is_written) {
    recorder_.begin(name, lane);
    TraceOperand operand;
    operand.begin = begin;
    operand.end = end;
    operand.is_written = is_written;
    recorder_.operand(operand);
    recorder_.end();
    return recorder_.last();
  }
  uint32_t reads(const char* name, int lane, int64_t begin, int64_t end) {
    return op(name, lane, begin, end, false);
  }
  uint32_t writes(const char* name, int lane, int64_t begin, int64_t end) {
    return op(name, lane, begin, end, true);
  }
  std::vector<Race> races() { return find_races(recorder_.trace()); }

  TraceRecorder recorder_;
  int comm_ = recorder_.lane({"dp"}), other_ = recorder_.lane({"shard"});
};

TEST_F(RaceTest, ACollectiveFollowsWhatWasComputedBefore) {
  writes("matmul", Trace::kCompute, 0, 100);
  reads("all_reduce", comm_, 0, 100);
  EXPECT_TRUE(races().empty());
}

TEST_F(RaceTest, WhoReadsAResultMustHaveWaitedForIt) {
  writes("matmul", Trace::kCompute, 0, 100);
  const uint32_t gather = writes("all_gather", comm_, 0, 200);
  reads("matmul", Trace::kCompute, 150, 160);
  ASSERT_EQ(races().size(), 1U);
  EXPECT_EQ(races()[0].earlier, gather);
  EXPECT_EQ(races()[0].later, 2U);
  EXPECT_NE(to_string(recorder_.trace(), races()[0]).find("is not ordered behind dp all_gather"),
            std::string::npos);
}

TEST_F(RaceTest, AWaitOrdersAllThatComesAfterIt) {
  recorder_.wait_for(writes("all_gather", comm_, 0, 200));
  writes("rope", Trace::kCompute, 300, 400);
  reads("matmul", Trace::kCompute, 150, 160);
  EXPECT_TRUE(races().empty());
}

TEST_F(RaceTest, TwoReadersNeedNoOrder) {
  writes("matmul", Trace::kCompute, 0, 100);
  reads("send", comm_, 0, 100);
  reads("add", Trace::kCompute, 0, 100);
  EXPECT_TRUE(races().empty());
  writes("add", Trace::kCompute, 50, 60);  // while it may still be sent
  EXPECT_EQ(races().size(), 1U);
}

TEST_F(RaceTest, BytesBesideEachOtherAreNoRace) {
  writes("all_gather", comm_, 0, 64);
  writes("matmul", Trace::kCompute, 64, 128);
  EXPECT_TRUE(races().empty());
}

TEST_F(RaceTest, OneGroupDoesNotWaitForAnotherUnlessToldTo) {
  const uint32_t scatter = writes("reduce_scatter", comm_, 0, 64);
  writes("all_reduce", other_, 0, 64);
  EXPECT_EQ(races().size(), 1U);
  recorder_ = TraceRecorder();
  comm_ = recorder_.lane({"dp"});
  other_ = recorder_.lane({"shard"});
  writes("reduce_scatter", comm_, 0, 64);
  recorder_.begin("all_reduce", other_);
  recorder_.wait_of_this(scatter);
  TraceOperand operand;
  operand.end = 64;
  operand.is_written = true;
  recorder_.operand(operand);
  recorder_.end();
  EXPECT_TRUE(races().empty());
}

// Order goes through a third lane: compute waits for dp, shard follows compute.
TEST_F(RaceTest, OrderIsPassedOn) {
  recorder_.wait_for(writes("all_gather", comm_, 0, 64));
  writes("add", Trace::kCompute, 100, 164);
  reads("send", other_, 0, 64);
  EXPECT_TRUE(races().empty());
}

TEST_F(RaceTest, AWaitThatNoComputeTookCountsForTheNextCollective) {
  recorder_.wait_for(writes("all_gather", comm_, 0, 64));
  reads("send", other_, 0, 64);
  EXPECT_TRUE(races().empty());
}

TEST_F(RaceTest, OperationsAreOrderedByLanesAndWaitsInTurn) {
  const uint32_t first = writes("all_gather", comm_, 0, 200);
  const uint32_t second = writes("all_gather", comm_, 200, 400);
  const uint32_t other = writes("all_reduce", other_, 400, 500);
  recorder_.wait_for(second);
  const uint32_t work = reads("matmul", Trace::kCompute, 0, 100);
  const Trace& trace = recorder_.trace();
  EXPECT_TRUE(is_ordered(trace, first, second));  // of one lane
  EXPECT_TRUE(is_ordered(trace, second, work));
  EXPECT_TRUE(is_ordered(trace, first, work));  // by way of the second
  EXPECT_FALSE(is_ordered(trace, other, work));
  EXPECT_FALSE(is_ordered(trace, second, other));
}

}  // namespace
}  // namespace sextant

#include "comm/call.h"

#include <gtest/gtest.h>

#include <vector>

namespace sextant {
namespace {

Call call_of(Operation operation, int64_t count, const SplitSizes& split_sizes = {}) {
  Call call;
  call.operation = operation;
  call.count = count;
  call.split_sizes = split_sizes;
  call.root = 1;
  return call;
}

int64_t sum_over_ranks(const Call& call, int ranks) {
  int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += elements_sent(call, rank, ranks);
  return sum;
}

TEST(SplitSizes, PartsFollowOneAnotherEvenlyOrByTheirSizes) {
  EXPECT_EQ(SplitSizes().part(10, 4, 0), (Range{0, 3}));
  EXPECT_EQ(SplitSizes().part(10, 4, 3), (Range{8, 10}));
  EXPECT_EQ(SplitSizes().part(2, 4, 3), (Range{2, 2}));
  const std::vector<int64_t> sizes = {5, 0, 3};
  EXPECT_EQ(SplitSizes(sizes).part(8, 3, 0), (Range{0, 5}));
  EXPECT_EQ(SplitSizes(sizes).part(8, 3, 1), (Range{5, 5}));
  EXPECT_EQ(SplitSizes(sizes).part(8, 3, 2), (Range{5, 8}));
}

TEST(ElementsSent, SumsOverRanksAreTheTextbookVolumes) {
  for (const int n : {2, 3, 5, 8})
    for (const int64_t count : {0, 1, 17, 4096}) {
      EXPECT_EQ(sum_over_ranks(call_of(Operation::AllReduce, count), n), 2 * (n - 1) * count);
      EXPECT_EQ(sum_over_ranks(call_of(Operation::ReduceScatter, count), n), (n - 1) * count);
      EXPECT_EQ(sum_over_ranks(call_of(Operation::AllGather, count), n), (n - 1) * count);
      EXPECT_EQ(sum_over_ranks(call_of(Operation::Broadcast, count), n), (n - 1) * count);
      EXPECT_EQ(sum_over_ranks(call_of(Operation::Reduce, count), n), (n - 1) * count);
      EXPECT_EQ(sum_over_ranks(call_of(Operation::Barrier, count), n), 0);
    }
}

TEST(ElementsSent, OfOneRankCountsWhatItGivesToOthers) {
  const std::vector<int64_t> sizes = {5, 0, 3};
  const SplitSizes split_sizes(sizes);
  EXPECT_EQ(elements_sent(call_of(Operation::AllReduce, 12), 0, 4), 9 + 9);
  EXPECT_EQ(elements_sent(call_of(Operation::ReduceScatter, 8, split_sizes), 0, 3), 3);
  EXPECT_EQ(elements_sent(call_of(Operation::ReduceScatter, 8, split_sizes), 1, 3), 8);
  EXPECT_EQ(elements_sent(call_of(Operation::AllGather, 8, split_sizes), 2, 3), 6);
  EXPECT_EQ(elements_sent(call_of(Operation::AllToAll, 8, split_sizes), 2, 3), 5);
  EXPECT_EQ(elements_sent(call_of(Operation::Scatter, 8, split_sizes), 1, 3), 8);
  EXPECT_EQ(elements_sent(call_of(Operation::Scatter, 8, split_sizes), 0, 3), 0);
  EXPECT_EQ(elements_sent(call_of(Operation::Gather, 8, split_sizes), 2, 3), 3);
  EXPECT_EQ(elements_sent(call_of(Operation::Gather, 8, split_sizes), 1, 3), 0);
  EXPECT_EQ(elements_sent(call_of(Operation::Send, 8), 0, 3), 8);
  EXPECT_EQ(elements_sent(call_of(Operation::Receive, 8), 0, 3), 0);
}

TEST(ElementsSent, OneRankSendsNothing) {
  for (int operation = 0; operation < kOperations; ++operation) {
    if (is_message(static_cast<Operation>(operation))) continue;
    Call call = call_of(static_cast<Operation>(operation), 100);
    call.root = 0;
    EXPECT_EQ(elements_sent(call, 0, 1), 0) << name_of(call.operation);
  }
}

TEST(Call, SaysWhatWasCalled) {
  EXPECT_EQ(to_string(call_of(Operation::AllReduce, 24)), "all_reduce sum of 24 f32");
  EXPECT_EQ(to_string(call_of(Operation::Send, 12)), "send of 12 f32 to 1");
  EXPECT_EQ(to_string(call_of(Operation::Broadcast, 12)), "broadcast of 12 f32 from 1");
  EXPECT_EQ(to_string(call_of(Operation::Barrier, 0)), "barrier");
  const std::vector<int64_t> sizes = {5, 0, 3};
  Call call = call_of(Operation::ReduceScatter, 8, SplitSizes(sizes));
  call.reduce_op = ReduceOp::Max;
  call.into = Into::Add;
  call.dtype = DType::BF16;
  EXPECT_EQ(to_string(call), "reduce_scatter max of 8 bf16 in parts 5 0 3, added");
}

}  // namespace
}  // namespace sextant

#include "comm/mismatch.h"

#include <gtest/gtest.h>

#include <vector>

namespace sextant {
namespace {

TEST(Mismatch, IsToldOnceForAllRanksThatMadeTheSameCall) {
  const std::vector<std::string> calls = {"barrier", "a", "barrier", "b", "a"};
  Call call;
  call.operation = Operation::Barrier;
  call.sequence = 7;
  EXPECT_EQ(describe_mismatch("dp", call, calls),
            "group dp, call 7: rank 0, 2 made barrier; rank 1, 4 made a; rank 3 made b");
}

TEST(Mismatch, NamesRanksOfTheWorldWhereTheyDiffer) {
  const std::vector<int> ranks = {0, 3};
  EXPECT_EQ(list_ranks(ranks, [](int rank) { return rank; }), "0, 3");
  EXPECT_EQ(list_ranks(ranks, [](int rank) { return rank + 4; }), "0 (world 4), 3 (world 7)");
}

}  // namespace
}  // namespace sextant

#include "comm/traffic.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TrafficTable table_of(std::string_view axis, Operation operation, const Traffic& traffic) {
  TrafficTable table;
  table.at(table.axis(axis), operation) = traffic;
  return table;
}

TEST(TrafficTable, SumsOverAxesAndOperations) {
  TrafficTable table = table_of("tp", Operation::AllReduce, {2, 10, 40});
  table.add(table_of("dp", Operation::AllReduce, {1, 3, 6}), 2);
  table.add(table_of("dp", Operation::AllGather, {1, 5, 10}), 1);
  EXPECT_EQ(table.of(Operation::AllReduce), (Traffic{4, 16, 52}));
  EXPECT_EQ(table.of("dp", Operation::AllReduce), (Traffic{2, 6, 12}));
  EXPECT_EQ(table.of("ep", Operation::AllReduce), Traffic());
  EXPECT_EQ(table.total(), (Traffic{5, 21, 62}));
  int seen = 0;
  for_each_sent(table, [&](const AxisTraffic&, Operation, const Traffic&) { ++seen; });
  EXPECT_EQ(seen, 3);
  table.reset();
  EXPECT_EQ(table.total(), Traffic());
  EXPECT_EQ(table.axes().size(), 2u);  // numbers of axes stay
}

TEST(TrafficTable, RepeatsWhatWasSentSince) {
  TrafficTable table = table_of("tp", Operation::Send, {1, 8, 16});
  const TrafficTable earlier = table;
  table.at(table.axis("tp"), Operation::Send) += {2, 10, 20};
  table.at(table.axis("pp"), Operation::Receive) += {1, 0, 0};
  table.repeat(earlier, 3);
  EXPECT_EQ(table.of(Operation::Send), (Traffic{1 + 4 * 2, 8 + 4 * 10, 16 + 4 * 20}));
  EXPECT_EQ(table.of(Operation::Receive), (Traffic{4, 0, 0}));
}

}  // namespace
}  // namespace sextant

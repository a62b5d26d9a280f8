#include "train/routing_record.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "config/model_presets.h"
#include "train/record.h"

namespace sextant {
namespace {

TEST(RoutingRecord, ImbalanceIsThatOfTheWorstLayer) {
  RoutingRecord record;
  record.expert_tokens = {{2, 2, 2, 2}, {6, 1, 1, 0}, {3, 2, 2, 1}};
  EXPECT_EQ(record.imbalance(), 3.0);
  record.expert_tokens = {{0, 0}};  // of a step without tokens
  EXPECT_EQ(record.imbalance(), 0.0);
}

// Two pipeline ranks, each with one of two layers; both losses are means over 4 micro-batches.
TEST(RoutingRecord, JoinsTheLayersOfAllRanks) {
  ModelConfig model = *model_preset("tiny-mixtral");
  model.layers = 2;
  model.experts = 3;
  const Blueprint blueprint = make_blueprint(model);
  run_ranks(2, [&](Communicator& world) {
    RankPart part;
    part.layers = world.rank() == 0 ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{3, 4, 5};
    const std::vector<double> own = world.rank() == 0 ? std::vector<double>{4, 8, 10, 20, 30, 5}
                                                      : std::vector<double>{12, 0, 1, 2, 3, 1};
    const RoutingRecord record = gather_routing(world.control(), blueprint, part, own, 4);
    EXPECT_EQ(record.balance_loss, 2.0);
    EXPECT_EQ(record.router_z_loss, 1.0);
    EXPECT_EQ(record.expert_tokens, (std::vector<std::vector<int64_t>>{{10, 20, 30}, {1, 2, 3}}));
    EXPECT_EQ(record.dropped, 6);
    EXPECT_EQ(record.dropped_share(), 6.0 / 66);
  });
}

TEST(RoutingRecord, IsInTheMetricsAndInTheLine) {
  StepRecord record;
  EXPECT_EQ(to_json(record).find("imbalance"), std::string::npos);
  record.routing = RoutingRecord{1.25, 0.5, {{3, 1}}};
  EXPECT_EQ(to_line(record, 10).find("dropped"), std::string::npos);
  EXPECT_NE(to_json(record).find("\"balance_loss\":1.25,\"router_z_loss\":0.5,\"imbalance\":1.5,"
                                 "\"expert_tokens\":[[3,1]]"),
            std::string::npos)
      << to_json(record);
  EXPECT_NE(to_line(record, 10).find("imbalance 1.50"), std::string::npos);
  record.routing->dropped = 1;
  EXPECT_NE(to_json(record).find("\"dropped_tokens\":1"), std::string::npos);
  EXPECT_NE(to_line(record, 10).find("dropped 25.00%"), std::string::npos);
}

}  // namespace
}  // namespace sextant

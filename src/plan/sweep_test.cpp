#include "plan/sweep.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/model_presets.h"
#include "plan/elastic.h"

namespace sextant {
namespace {

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Cluster cluster(const char* text) {
  DiskStorage storage;
  return parse_cluster(storage, text);
}

TEST(Elastic, KimiK2RunsOnAnyMultipleOf32Nodes) {
  const FixedAxes k2 = parse_fixed("pp=16,ep=16");
  const ElasticUnit unit = elastic_unit(k2, cluster("8xH800").hardware);
  EXPECT_EQ(unit.gpus, 256);
  EXPECT_EQ(unit.nodes, 32);
  std::vector<int64_t> nodes;
  for (const ElasticCount& one : elastic_counts(k2, cluster("1024xH800"), 0))
    nodes.push_back(one.nodes);
  EXPECT_EQ(nodes, (std::vector<int64_t>{32, 64, 96, 128}));
  const std::string why = refusal([&] { elastic_counts(k2, cluster("384xH800"), 0); });
  EXPECT_NE(why.find("48 nodes"), std::string::npos) << why;
  EXPECT_NE(why.find("pp 16 × ep 16 = 256 GPUs"), std::string::npos) << why;
}

TEST(Elastic, ExpertsMaySpanTensorAndContextRanks) {
  const Hardware node = cluster("8xH100").hardware;
  EXPECT_EQ(elastic_unit(parse_fixed("tp=8,pp=4,ep=8"), node).gpus, 32);  // inside the tp ranks
  EXPECT_EQ(elastic_unit(parse_fixed("tp=8,pp=4,ep=64"), node).gpus, 256);
  EXPECT_EQ(elastic_unit(parse_fixed("pp=16,ep=64"), node).nodes,
            128);  // DeepSeek-V3 had two units: edp 2
  EXPECT_EQ(elastic_unit(parse_fixed("tp=4,pp=4,ep=8,etp=2"), node).gpus, 64);
  EXPECT_EQ(elastic_unit(FixedAxes{}, node).nodes, 1);
}

TEST(Elastic, SaysWhichCountsDoNotDivideTheBatch) {
  const auto counts = elastic_counts(parse_fixed("pp=16,ep=16"), cluster("768xH800"), 512);
  ASSERT_EQ(counts.size(), 3);
  EXPECT_TRUE(counts[0].fits_batch && counts[1].fits_batch);
  EXPECT_FALSE(counts[2].fits_batch);  // 48 data ranks
}

PlanRequest request(const char* model, const char* machines, int64_t batch, int64_t seq) {
  PlanRequest out;
  out.preset = model;
  out.shape = shape_of(*model_preset(model), seq);
  out.hardware = cluster(machines).hardware;
  out.gpus = cluster(machines).gpus;
  out.batch = batch;
  out.practice.each_micro = true;
  return out;
}

TEST(Sweep, ReadsListsAndDoublings) {
  EXPECT_EQ(parse_sweep("gpus=8..64").values, (std::vector<int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(parse_sweep("batch=64,8,64").values, (std::vector<int64_t>{8, 64}));
  EXPECT_EQ(parse_sweep("micro=3").axis, SweptAxis::Micro);
  for (const char* bad :
       {"", "gpus", "tp=8", "gpus=", "gpus=8..4", "gpus=0", "gpus=8,,9", "batch=x"})
    EXPECT_NE(refusal([&] { parse_sweep(bad); }).find("--sweep"), std::string::npos) << bad;
}

TEST(Sweep, EachPointIsTheBestPlanOfItsOwnSearch) {
  const PlanRequest asked = request("llama-8b", "8xH100", 64, 4096);
  const auto points = sweep_plans(asked, parse_sweep("gpus=8,16,48"), Constants{});
  ASSERT_EQ(points.size(), 3);
  PlanRequest sixteen = asked;
  sixteen.gpus = 16;
  const PlanResult alone = search_plans(sixteen, Constants{});
  ASSERT_TRUE(points[1].plan);
  EXPECT_EQ(points[1].plan->layout, alone.plans[0].layout);
  EXPECT_LT(points[1].plan->time.total(), points[0].plan->time.total());
  for (const SweepPoint& point : points) EXPECT_NE(point.plan.has_value(), !point.reason.empty());
}

TEST(Sweep, AValueWithoutALayoutSaysWhy) {
  const auto points =
      sweep_plans(request("llama-70b", "8xA100", 8, 4096), parse_sweep("gpus=1"), Constants{});
  EXPECT_FALSE(points[0].plan);
  EXPECT_NE(points[0].reason.find("memory"), std::string::npos) << points[0].reason;
}

TEST(Sweep, ThePictureHasAPointForEachPlan) {
  const SweepRequest sweep = parse_sweep("micro=1,2");
  const auto points = sweep_plans(request("llama-8b", "8xH100", 64, 4096), sweep, Constants{});
  const std::string svg = sweep_picture(sweep, points, "title");
  size_t circles = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1))
    ++circles;
  EXPECT_EQ(circles, 4);  // step time and MFU
}

}  // namespace
}  // namespace sextant

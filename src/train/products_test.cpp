// Combined axes: every two of them, and products of three, four and all five on 8, 16 and 32 ranks.
#include "support/counts.h"
#include "support/layouts.h"

namespace sextant {
namespace {

// Ways to use one axis with two ranks.
struct AxisUse {
  const char* axis;
  std::vector<Settings> ways;
};

const std::vector<AxisUse>& every_axis() {
  static const std::vector<AxisUse> all = {
      {"dp", {{"parallel.dp=2"}}},
      {"shard",
       {{"parallel.shard=2", "parallel.zero=1"},
        {"parallel.shard=2", "parallel.zero=2"},
        {"parallel.shard=2", "parallel.zero=3"}}},
      {"tp", {{"parallel.tp=2", "parallel.sequence=true"}}},
      {"cp",
       {{"parallel.cp=2", "parallel.cp_kind=ring"},
        {"parallel.cp=2", "parallel.cp_kind=ulysses"},
        {"parallel.cp=2", "parallel.cp_kind=allgather"}}},
      {"pp",
       {{"parallel.pp=2", "parallel.schedule=1f1b"},
        {"parallel.pp=2", "parallel.schedule=zb-h1"},
        {"parallel.pp=2", "parallel.schedule=dualpipe", "batch.accumulation=4"}}}};
  return all;
}

class Products : public LayoutTest {};
class SlowPairs : public LayoutTest {};

TEST_F(SlowPairs, OfAxesGiveTheGradientsOfOneRank) {
  GridSample sample(5);
  const std::vector<AxisUse>& axes = every_axis();
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = i + 1; j < axes.size(); ++j)
      for (const Settings& left : axes[i].ways)
        for (const Settings& right : axes[j].ways)
          if (sample.takes()) expect_right(kGrouped + left + right + Settings{"model.tied=true"});
}

// Three, four and five axes. Each also has the predicted memory.
const Settings kOfMany[] = {
    // 8 ranks
    {"dp=2", "tp=2", "cp=2"},
    {"dp=2", "tp=2", "pp=2", "schedule=1f1b"},
    {"shard=2", "zero=3", "tp=2", "cp=2", "cp_kind=allgather"},
    {"shard=2", "zero=2", "cp=2", "cp_kind=ulysses", "pp=2", "schedule=zb-h1"},
    {"shard=2", "zero=1", "tp=2", "pp=2", "schedule=zb-v"},
    {"dp=2", "shard=2", "zero=3", "cp=2"},
    {"dp=2", "shard=2", "zero=2", "tp=2", "sequence=false"},
    {"tp=2", "cp=2", "pp=2", "schedule=interleaved", "chunks=2"},
    // 16 ranks
    {"dp=2", "shard=2", "zero=2", "tp=2", "cp=2"},
    {"shard=2", "zero=3", "tp=2", "cp=2", "pp=2", "schedule=1f1b"},
    {"dp=2", "tp=2", "cp=2", "cp_kind=allgather", "pp=2", "schedule=zb-h2"},
    {"tp=4", "cp=2", "cp_kind=ulysses", "pp=2", "schedule=dualpipe-v"},
    {"tp=2", "cp=4", "cp_kind=ring+ulysses", "pp=2", "schedule=v-half"},
    {"dp=2", "shard=2", "zero=1", "cp=2", "pp=2", "schedule=looped-bfs", "chunks=2"},
    {"tp=8", "cp=2"},
    // 32 ranks
    {"dp=2", "shard=2", "zero=2", "tp=2", "cp=2", "pp=2", "schedule=1f1b"},
};

Settings as_keys(const Settings& layout) {
  Settings keys = {"model.layers=4", "batch.accumulation=4"};
  for (const std::string& value : layout) keys.push_back("parallel." + value);
  return keys;
}

class SlowProducts : public Products, public testing::WithParamInterface<Settings> {};

TEST_P(SlowProducts, OfManyAxesGiveTheGradientsOfOneRankInEveryFamily) {
  GridSample sample(3);
  std::vector<Settings> models = {kGpt + Settings{"model.tied=true"}, kGrouped,
                                  kGrouped + Settings{"model.tied=true"}};
  if (GetParam()[0] != "tp=8") models.push_back(kNormed);
  for (const Settings& model : models)
    if (sample.takes()) expect_right(model + as_keys(GetParam()));
}

TEST_P(SlowProducts, HoldWhatWasPredictedToTheByte) {
  expect_predicted_memory(kGrouped + as_keys(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Of, SlowProducts, testing::ValuesIn(kOfMany));

// A pipeline copies bits: adding one to other axes does not change their bits.
TEST_F(Products, HaveTheSameBitsWithAPipelineAsWithout) {
  for (const auto& [layout, without] :
       {std::pair{Settings{"tp=2", "cp=2", "pp=2", "schedule=1f1b"}, "tp=2,cp=2"},
        {Settings{"dp=2", "cp=2", "pp=2", "schedule=zb-h1"}, "dp=2,cp=2"},
        {Settings{"shard=2", "zero=1", "tp=2", "pp=2", "schedule=zb-v"}, "shard=2,zero=1,tp=2"}}) {
    const VerifyReport report =
        verify(kGrouped + as_keys(layout) + Settings{"model.tied=false"}, without);
    EXPECT_TRUE(report.bitwise) << join(layout, " ") << " against " << without;
  }
}

TEST_F(Products, DropTheHiddenValuesThatOneRankDrops) {
  for (const Settings& layout : {Settings{"tp=2", "cp=2", "pp=2", "schedule=zb-h1"},
                                 Settings{"dp=2", "tp=2", "cp=4", "cp_kind=ring+ulysses"}})
    expect_right(kGrouped + as_keys(layout) + Settings{"model.dropout=0.2"});
}

// ZeRO shards what is summed over data parallel ranks, whatever the other axes.
TEST_F(Products, HaveTheSameBitsUnderZeroAsUnderDataParallel) {
  for (const char* zero : {"zero=1", "zero=2", "zero=3"}) {
    const VerifyReport report =
        verify(kGrouped + as_keys({"shard=2", zero, "tp=2"}) + Settings{"batch.accumulation=1"},
               "dp=2,tp=2");
    EXPECT_TRUE(report.bitwise) << zero;
  }
}

}  // namespace
}  // namespace sextant

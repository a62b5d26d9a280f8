#include "mesh/axis.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

using Groups = std::vector<std::vector<int>>;

MeshShape shape_of(int tp, int cp, int shard, int dp, int pp) {
  return {{tp, cp, shard, dp, pp}};
}

TEST(MeshShape, SixteenRanksFormThePublishedGroups) {
  const MeshShape shape = shape_of(2, 1, 1, 4, 2);
  EXPECT_EQ(shape.size(), 16);
  EXPECT_EQ(groups_along(shape, {Axis::Tp}),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups_along(shape, {Axis::Dp}),
            (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(groups_along(shape, {Axis::Pp}),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  EXPECT_EQ(groups_along(shape, {Axis::Cp}).size(), 16u);
}

TEST(MeshShape, HybridShardingHasRowsOfShardsAndColumnsOfReplicas) {
  const MeshShape shape = shape_of(1, 1, 3, 2, 1);
  EXPECT_EQ(groups_along(shape, {Axis::Shard}), (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groups_along(shape, {Axis::Dp}), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(groups_along(shape, {Axis::Dp, Axis::Shard, Axis::Cp}), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(to_string(shape), "dp2 x shard3");
  EXPECT_EQ(to_string(MeshShape{}), "1 rank");
}

TEST(MeshShape, TensorParallelIsFastestAndPipelineSlowest) {
  const MeshShape shape = shape_of(2, 3, 2, 2, 2);
  EXPECT_EQ(coordinates_of(shape, 1), (Coordinates{1, 0, 0, 0, 0}));
  EXPECT_EQ(coordinates_of(shape, 2), (Coordinates{0, 1, 0, 0, 0}));
  EXPECT_EQ(coordinates_of(shape, 6), (Coordinates{0, 0, 1, 0, 0}));
  EXPECT_EQ(coordinates_of(shape, 12), (Coordinates{0, 0, 0, 1, 0}));
  EXPECT_EQ(coordinates_of(shape, 24), (Coordinates{0, 0, 0, 0, 1}));
}

// Over many shapes: ranks map to coordinates and back, and the groups of every axis contain each
// rank once and have the size of the degree.
TEST(MeshShape, CoordinatesAndGroupsCoverEveryRankOnce) {
  for (int tp : {1, 2, 3})
    for (int cp : {1, 2})
      for (int shard : {1, 3, 4})
        for (int dp : {1, 2})
          for (int pp : {1, 2, 3}) {
            const MeshShape shape = shape_of(tp, cp, shard, dp, pp);
            for (int rank = 0; rank < shape.size(); ++rank)
              ASSERT_EQ(rank_at(shape, coordinates_of(shape, rank)), rank);
            for (int axis = 0; axis < kAxes; ++axis) {
              std::vector<int> seen(static_cast<size_t>(shape.size()));
              const auto degree = static_cast<size_t>(shape.degrees[static_cast<size_t>(axis)]);
              for (const auto& group : groups_along(shape, {static_cast<Axis>(axis)})) {
                ASSERT_EQ(group.size(), degree);
                for (const int rank : group) ++seen[static_cast<size_t>(rank)];
              }
              ASSERT_EQ(seen, std::vector<int>(seen.size(), 1));
            }
          }
}

TEST(MeshShape, RefusesWhatIsNoMesh) {
  EXPECT_ERROR(shape_of(0, 1, 1, 1, 1).size(), Config, "degrees are 1 or more");
  EXPECT_ERROR(shape_of(65536, 65536, 1, 1, 1).size(), Config, "below 2^31");
  EXPECT_ERROR(coordinates_of(shape_of(2, 1, 1, 1, 1), 2), Internal, "rank 2 of a mesh of 2");
  EXPECT_ERROR(rank_at(shape_of(2, 1, 1, 1, 1), {0, 1, 0, 0, 0}), Internal, "along cp");
}

// tp 2, dp 4, pp 2: two pairs of tp have the experts once, the other two are their replicas.
TEST(MeshShape, ExpertsLieOnConsecutiveRanksOfAStage) {
  MeshShape shape{{2, 1, 1, 4, 2}, 4};
  EXPECT_EQ(expert_group(shape, ExpertAxis::Ep, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(expert_group(shape, ExpertAxis::Edp, 5), (std::vector<int>{1, 5}));
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Ep),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Edp),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Etp).size(), 16u);
}

// The same ranks as etp 2, ep 2, edp 2 in each stage: etp is fastest.
TEST(MeshShape, PartsOfExpertsLieOnNeighbouringRanks) {
  MeshShape shape{{2, 1, 1, 4, 2}, 2, 2};
  EXPECT_EQ(shape.edp(), 2);
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Etp), groups_along(shape, {Axis::Tp}));
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Ep),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(expert_groups(shape, ExpertAxis::Edp),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(expert_sources(shape, 13), (std::vector<int>{12, 14, 13, 15}));
}

}  // namespace
}  // namespace sextant

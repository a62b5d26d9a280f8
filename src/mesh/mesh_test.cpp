#include "mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

std::vector<int> members(Communicator& group) {
  std::vector<int> out;
  for (int rank = 0; rank < group.size(); ++rank) out.push_back(group.world_rank(rank));
  return out;
}

std::vector<int> group_with(const MeshShape& shape, const std::vector<Axis>& axes, int rank) {
  for (const std::vector<int>& group : groups_along(shape, axes))
    if (std::ranges::find(group, rank) != group.end()) return group;
  return {};
}

// Every rank's communicators have the ranks of groups_along, in order.
void expect_groups(const MeshShape& shape) {
  run_ranks(shape.size(), [&](Communicator& world) {
    Mesh mesh(world, shape);
    EXPECT_EQ(mesh.coordinates(), coordinates_of(shape, world.rank()));
    for (int i = 0; i < kAxes; ++i) {
      const Axis axis = static_cast<Axis>(i);
      Communicator& group = mesh.along(axis);
      EXPECT_EQ(members(group), group_with(shape, {axis}, world.rank()));
      EXPECT_EQ(group.name(), name_of(axis));
      EXPECT_EQ(group.rank(), mesh.at(axis));
    }
    EXPECT_EQ(mesh.data().name(), "data");
    EXPECT_EQ(members(mesh.data()),
              group_with(shape, {Axis::Dp, Axis::Shard, Axis::Cp}, world.rank()));
    EXPECT_EQ(members(mesh.replicas()), group_with(shape, {Axis::Dp, Axis::Cp}, world.rank()));
  });
}

TEST(Mesh, RanksMeetInTheGroupsOfTheirAxes) {
  expect_groups({});
  expect_groups({{1, 1, 3, 2, 1}});
  expect_groups({{2, 1, 1, 4, 2}});
  expect_groups({{1, 2, 2, 2, 1}});
  expect_groups({{2, 3, 2, 1, 1}});
}

TEST(Mesh, TrafficIsCountedForTheAxesOfItsGroup) {
  run_ranks(8, [](Communicator& world) {
    Mesh mesh(world, {{2, 1, 2, 2, 1}});
    Workbench bench;
    Tensor data = bench.make<float>({2}, {1, 2});
    mesh.along(Axis::Tp).all_reduce(bench.stream(), data, ReduceOp::Sum);
    mesh.data().all_reduce(bench.stream(), data, ReduceOp::Sum);
    mesh.replicas().all_reduce(bench.stream(), data, ReduceOp::Sum);
    duplicate(mesh.along(Axis::Tp), "again")->all_reduce(bench.stream(), data, ReduceOp::Sum);
    const TrafficTable& sent = world.ledger().traffic;
    EXPECT_EQ(sent.of("tp", Operation::AllReduce).calls, 2);
    EXPECT_EQ(sent.of("dp+shard", Operation::AllReduce).calls, 1);
    EXPECT_EQ(sent.of("dp", Operation::AllReduce).calls, 1);  // replicas: cp has one rank
    EXPECT_EQ(sent.total().calls, 4);
    EXPECT_EQ(sent.of("cp", Operation::AllReduce).calls, 0);
  });
}

TEST(Mesh, RanksMeetInTheGroupsOfExperts) {
  for (const auto& [ep, etp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 2}}) {
    const MeshShape shape{{2, 1, 1, 4, 1}, ep, etp};
    run_ranks(8, [&](Communicator& world) {
      Mesh mesh(world, shape);
      for (const ExpertAxis axis : kExpertAxes)
        EXPECT_EQ(members(mesh.along(axis)), expert_group(shape, axis, world.rank()));
      EXPECT_EQ(members(mesh.expert_sources()), expert_sources(shape, world.rank()));
    });
  }
  EXPECT_ERROR(run_ranks(4,
                         [](Communicator& world) {
                           Mesh(world, {{1, 1, 1, 4, 1}, 2, 4});
                         }),
               Config, "ep = 2 x etp = 4 over 4 ranks of a pipeline stage");
}

TEST(Mesh, SumsStayInTheirGroup) {
  run_ranks(6, [](Communicator& world) {
    Mesh mesh(world, {{1, 1, 3, 2, 1}});
    int64_t along_shard = world.rank(), along_dp = world.rank();
    mesh.along(Axis::Shard).control().all_reduce(std::span(&along_shard, 1), ReduceOp::Sum);
    mesh.along(Axis::Dp).control().all_reduce(std::span(&along_dp, 1), ReduceOp::Sum);
    EXPECT_EQ(along_shard, world.rank() < 3 ? 0 + 1 + 2 : 3 + 4 + 5);
    EXPECT_EQ(along_dp, 2 * (world.rank() % 3) + 3);
  });
}

TEST(Mesh, AWorldOfAnotherSizeIsRefused) {
  EXPECT_ERROR(run_ranks(2,
                         [](Communicator& world) {
                           Mesh(world, {{1, 1, 3, 1, 1}});
                         }),
               Config, "a mesh of shard3 has 3 ranks, but 2 were started");
}

}  // namespace
}  // namespace sextant

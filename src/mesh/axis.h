#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// The axes of the mesh, fastest-varying first: consecutive ranks are neighbours along tp.
enum class Axis { Tp, Cp, Shard, Dp, Pp };
inline constexpr int kAxes = 5;
const char* name_of(Axis axis);  // "tp"

struct MeshShape {
  std::array<int, kAxes> degrees = {1, 1, 1, 1, 1};  // by Axis
  // Expert parallel re-factors the ranks of a pipeline stage: ep consecutive ranks have different
  // experts, ranks ep apart the same ones.
  int ep = 1;

  int degree(Axis axis) const { return degrees[static_cast<size_t>(axis)]; }
  int size() const;
  int stage_size() const { return size() / degree(Axis::Pp); }  // ranks of a pipeline stage
};

using Coordinates = std::array<int, kAxes>;  // by Axis

Coordinates coordinates_of(const MeshShape& shape, int rank);
int rank_at(const MeshShape& shape, const Coordinates& coordinates);

// The groups along these axes: ranks with equal coordinates on all other axes. Each list ascends;
// the lists are sorted by their first rank.
std::vector<std::vector<int>> groups_along(const MeshShape& shape, const std::vector<Axis>& axes);

// The group along these axes that contains `rank`.
std::vector<int> group_along(const MeshShape& shape, int rank, std::span<const Axis> axes);

// The ranks with the other experts, and those with the same experts, as `rank`; both ascend.
std::vector<int> expert_group(const MeshShape& shape, int rank);
std::vector<int> expert_replicas(const MeshShape& shape, int rank);

// All such groups, sorted by their first rank.
std::vector<std::vector<int>> expert_groups(const MeshShape& shape);
std::vector<std::vector<int>> expert_replica_groups(const MeshShape& shape);

std::string to_string(const MeshShape& shape);  // "dp2 x shard4", "1 rank"

}  // namespace sextant

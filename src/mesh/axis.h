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

  int degree(Axis axis) const { return degrees[static_cast<size_t>(axis)]; }
  int size() const;
};

using Coordinates = std::array<int, kAxes>;  // by Axis

Coordinates coordinates_of(const MeshShape& shape, int rank);
int rank_at(const MeshShape& shape, const Coordinates& coordinates);

// The groups along these axes: ranks with equal coordinates on all other axes. Each list ascends;
// the lists are sorted by their first rank.
std::vector<std::vector<int>> groups_along(const MeshShape& shape, const std::vector<Axis>& axes);

// The group along these axes that contains `rank`.
std::vector<int> group_along(const MeshShape& shape, int rank, std::span<const Axis> axes);

std::string to_string(const MeshShape& shape);  // "dp2 x shard4", "1 rank"

}  // namespace sextant

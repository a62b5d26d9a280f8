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
  // Experts re-factor the ranks of a pipeline stage as etp * ep * edp, etp fastest: the ranks of
  // etp have parts of the same experts, those of ep different experts, those of edp the same parts
  // of the same ones.
  int ep = 1, etp = 1;

  int degree(Axis axis) const { return degrees[static_cast<size_t>(axis)]; }
  int size() const;
  int stage_size() const { return size() / degree(Axis::Pp); }  // ranks of a pipeline stage
  int expert_size() const { return ep * etp; }  // ranks that have the experts between them
  int edp() const { return stage_size() / expert_size(); }
};

using Coordinates = std::array<int, kAxes>;  // by Axis

Coordinates coordinates_of(const MeshShape& shape, int rank);
int rank_at(const MeshShape& shape, const Coordinates& coordinates);

// The groups along these axes: ranks with equal coordinates on all other axes. Each list ascends;
// the lists are sorted by their first rank.
std::vector<std::vector<int>> groups_along(const MeshShape& shape, const std::vector<Axis>& axes);

// The group along these axes that contains `rank`.
std::vector<int> group_along(const MeshShape& shape, int rank, std::span<const Axis> axes);

// The axes of experts, fastest first.
enum class ExpertAxis { Etp, Ep, Edp };
inline constexpr std::array kExpertAxes = {ExpertAxis::Etp, ExpertAxis::Ep, ExpertAxis::Edp};
const char* name_of(ExpertAxis axis);  // "etp"

// The group along an axis of experts that contains `rank`; it ascends.
std::vector<int> expert_group(const MeshShape& shape, ExpertAxis axis, int rank);
// All of them, sorted by their first rank.
std::vector<std::vector<int>> expert_groups(const MeshShape& shape, ExpertAxis axis);
// The ranks that have the experts between them, with `rank`, in the order in which tokens come
// together: by etp, then ep.
std::vector<int> expert_sources(const MeshShape& shape, int rank);

std::string to_string(const MeshShape& shape);  // "dp2 x shard4", "1 rank"

}  // namespace sextant

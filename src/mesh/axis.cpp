#include "mesh/axis.h"

#include <cstdint>

#include "base/error.h"

namespace sextant {

const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::Tp:
      return "tp";
    case Axis::Cp:
      return "cp";
    case Axis::Shard:
      return "shard";
    case Axis::Dp:
      return "dp";
    case Axis::Pp:
      return "pp";
  }
  return "?";
}

int MeshShape::size() const {
  int64_t ranks = 1;
  for (const int degree : degrees) {
    SXT_CHECK(degree > 0 && ranks * degree <= INT32_MAX, Config, "a mesh axis of degree ", degree,
              " over ", ranks, " ranks: degrees are 1 or more, their product below 2^31");
    ranks *= degree;
  }
  return static_cast<int>(ranks);
}

Coordinates coordinates_of(const MeshShape& shape, int rank) {
  const int size = shape.size();
  SXT_CHECK(rank >= 0 && rank < size, Internal, "rank ", rank, " of a mesh of ", size);
  Coordinates out{};
  for (size_t axis = 0; axis < kAxes; ++axis) {
    out[axis] = rank % shape.degrees[axis];
    rank /= shape.degrees[axis];
  }
  return out;
}

int rank_at(const MeshShape& shape, const Coordinates& coordinates) {
  int rank = 0;
  for (size_t axis = kAxes; axis-- > 0;) {
    SXT_CHECK(coordinates[axis] >= 0 && coordinates[axis] < shape.degrees[axis], Internal,
              "coordinate ", coordinates[axis], " along ", name_of(static_cast<Axis>(axis)),
              " of degree ", shape.degrees[axis]);
    rank = rank * shape.degrees[axis] + coordinates[axis];
  }
  return rank;
}

namespace {

// The shape of a group along `axes`: degree 1 on the other axes.
MeshShape inside(const MeshShape& shape, std::span<const Axis> axes) {
  MeshShape out;
  for (const Axis axis : axes)
    out.degrees[static_cast<size_t>(axis)] = shape.degrees[static_cast<size_t>(axis)];
  return out;
}

}  // namespace

// Rank numbers are linear in the coordinates, so every group is its first rank plus fixed offsets.
std::vector<std::vector<int>> groups_along(const MeshShape& shape, const std::vector<Axis>& axes) {
  MeshShape outside = shape;
  for (const Axis axis : axes) outside.degrees[static_cast<size_t>(axis)] = 1;
  std::vector<std::vector<int>> out;
  out.reserve(static_cast<size_t>(outside.size()));
  for (int group = 0; group < outside.size(); ++group)
    out.push_back(group_along(shape, rank_at(shape, coordinates_of(outside, group)), axes));
  return out;
}

std::vector<int> group_along(const MeshShape& shape, int rank, std::span<const Axis> axes) {
  Coordinates first = coordinates_of(shape, rank);
  for (const Axis axis : axes) first[static_cast<size_t>(axis)] = 0;
  const MeshShape group = inside(shape, axes);
  std::vector<int> ranks;
  for (int member = 0; member < group.size(); ++member)
    ranks.push_back(rank_at(shape, first) + rank_at(shape, coordinates_of(group, member)));
  return ranks;
}

const char* name_of(ExpertAxis axis) {
  switch (axis) {
    case ExpertAxis::Etp:
      return "etp";
    case ExpertAxis::Ep:
      return "ep";
    case ExpertAxis::Edp:
      return "edp";
  }
  return "?";
}

namespace {

// Of an axis of experts: how far apart its neighbours are, and how many there are.
struct Steps {
  int stride, degree;

  Steps(const MeshShape& shape, ExpertAxis axis) : stride(1), degree(shape.etp) {
    if (axis == ExpertAxis::Etp) return;
    const bool is_ep = axis == ExpertAxis::Ep;
    stride = is_ep ? shape.etp : shape.expert_size();
    degree = is_ep ? shape.ep : shape.edp();
  }
  // A stage is a multiple of stride * degree.
  int first(int rank) const { return rank - rank / stride % degree * stride; }
};

}  // namespace

std::vector<int> expert_group(const MeshShape& shape, ExpertAxis axis, int rank) {
  const Steps steps(shape, axis);
  std::vector<int> ranks;
  for (int i = 0; i < steps.degree; ++i) ranks.push_back(steps.first(rank) + i * steps.stride);
  return ranks;
}

std::vector<std::vector<int>> expert_groups(const MeshShape& shape, ExpertAxis axis) {
  const Steps steps(shape, axis);
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < shape.size(); ++rank)
    if (steps.first(rank) == rank) groups.push_back(expert_group(shape, axis, rank));
  return groups;
}

std::vector<int> expert_sources(const MeshShape& shape, int rank) {
  const int first = rank / shape.expert_size() * shape.expert_size();
  std::vector<int> ranks;
  for (int etp = 0; etp < shape.etp; ++etp)
    for (int ep = 0; ep < shape.ep; ++ep) ranks.push_back(first + ep * shape.etp + etp);
  return ranks;
}

std::string to_string(const MeshShape& shape) {
  std::string out;
  for (size_t axis = kAxes; axis-- > 0;) {
    if (shape.degrees[axis] == 1) continue;
    out += concat(out.empty() ? "" : " x ", name_of(static_cast<Axis>(axis)), shape.degrees[axis]);
  }
  return out.empty() ? "1 rank" : out;
}

}  // namespace sextant

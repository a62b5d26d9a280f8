#include "mesh/axis.h"

#include <map>

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

std::vector<std::vector<int>> groups_along(const MeshShape& shape, const std::vector<Axis>& axes) {
  std::map<int, std::vector<int>> by_first;  // the rank that has 0 along all of `axes`
  for (int rank = 0; rank < shape.size(); ++rank) {
    Coordinates first = coordinates_of(shape, rank);
    for (const Axis axis : axes) first[static_cast<size_t>(axis)] = 0;
    by_first[rank_at(shape, first)].push_back(rank);
  }
  std::vector<std::vector<int>> out;
  for (auto& [first, ranks] : by_first) out.push_back(std::move(ranks));
  return out;
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

#include "mesh/mesh.h"

#include "base/error.h"

namespace sextant {
namespace {

// Those of them that have several ranks ("dp+shard"), or the first of them.
std::string axes_text(const MeshShape& shape, std::span<const Axis> axes) {
  std::string text;
  for (const Axis axis : axes)
    if (shape.degree(axis) > 1) text += concat(text.empty() ? "" : "+", name_of(axis));
  return text.empty() ? name_of(axes.front()) : text;
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : world_(world), shape_(shape), coordinates_{} {
  SXT_CHECK(world.size() == shape.size(), Config, "a mesh of ", to_string(shape), " has ",
            shape.size(), " ranks, but ", world.size(), " were started");
  coordinates_ = coordinates_of(shape, world.rank());
  const auto join = [&](std::span<const Axis> axes, const char* name) {
    return world.subgroup(group_along(shape, world.rank(), axes), name, axes_text(shape, axes));
  };
  for (size_t i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    groups_[i] = join(std::array{axis}, name_of(axis));
  }
  // With equal other coordinates, world ranks ascend with (dp, shard, cp).
  data_ = join(std::array{Axis::Dp, Axis::Shard, Axis::Cp}, "data");
  replicas_ = join(std::array{Axis::Dp, Axis::Cp}, "replicas");
  SXT_CHECK(shape.stage_size() % shape.ep == 0, Config, "ep = ", shape.ep, " over ",
            shape.stage_size(), " ranks of a pipeline stage: it must divide them");
  const int rank = world.rank();
  experts_ = world.subgroup(expert_group(shape, rank), "ep", "ep");
  expert_replicas_ = world.subgroup(sextant::expert_replicas(shape, rank), "edp", "edp");
  stage_ = join(std::array{Axis::Dp, Axis::Shard, Axis::Cp, Axis::Tp}, "stage");
  alone_ = world.subgroup(std::array{rank}, "alone");
}

}  // namespace sextant

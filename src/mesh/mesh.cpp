#include "mesh/mesh.h"

#include "base/error.h"

namespace sextant {
Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : world_(world), shape_(shape), coordinates_{} {
  SXT_CHECK(world.size() == shape.size(), Config, "a mesh of ", to_string(shape), " has ",
            shape.size(), " ranks, but ", world.size(), " were started");
  coordinates_ = coordinates_of(shape, world.rank());
  const auto join = [&](std::span<const Axis> axes, const char* name) {
    return world.subgroup(group_along(shape, world.rank(), axes), name);
  };
  for (size_t i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    groups_[i] = join(std::array{axis}, name_of(axis));
  }
  // With equal other coordinates, world ranks ascend with (dp, shard, cp).
  data_ = join(std::array{Axis::Dp, Axis::Shard, Axis::Cp}, "data");
  replicas_ = join(std::array{Axis::Dp, Axis::Cp}, "replicas");
}

}  // namespace sextant

#include "mesh/mesh.h"

#include "base/error.h"

namespace sextant {
namespace {

// Names a rank's group along `axes`: equal on exactly the ranks that agree elsewhere.
int color_along(const MeshShape& shape, Coordinates coordinates, std::span<const Axis> axes) {
  for (const Axis axis : axes) coordinates[static_cast<size_t>(axis)] = 0;
  return rank_at(shape, coordinates);
}

}  // namespace

Mesh::Mesh(Communicator& world, const MeshShape& shape)
    : world_(world), shape_(shape), coordinates_{} {
  SXT_CHECK(world.size() == shape.size(), Config, "a mesh of ", to_string(shape), " has ",
            shape.size(), " ranks, but ", world.size(), " were started");
  coordinates_ = coordinates_of(shape, world.rank());
  for (size_t i = 0; i < kAxes; ++i) {
    const Axis axis = static_cast<Axis>(i);
    groups_[i] = world.split(color_along(shape, coordinates_, std::array{axis}), world.rank(),
                             name_of(axis));
  }
  // World rank grows with (dp, shard, cp) where the other coordinates are the same.
  constexpr std::array axes = {Axis::Dp, Axis::Shard, Axis::Cp};
  data_ = world.split(color_along(shape, coordinates_, axes), world.rank(), "data");
  if (shape.degree(Axis::Dp) == 1 || shape.degree(Axis::Cp) == 1) return;
  constexpr std::array same_shard = {Axis::Dp, Axis::Cp};
  replicas_ = world.split(color_along(shape, coordinates_, same_shard), world.rank(), "replicas");
}

Communicator& Mesh::replicas() {
  if (replicas_ != nullptr) return *replicas_;
  return along(shape_.degree(Axis::Cp) > 1 ? Axis::Cp : Axis::Dp);
}

}  // namespace sextant

#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "mesh/axis.h"

namespace sextant {

// Where one rank is, and its groups. Made by all ranks of the world together.
class Mesh {
 public:
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  const Coordinates& coordinates() const { return coordinates_; }
  int at(Axis axis) const { return coordinates_[static_cast<size_t>(axis)]; }

  Communicator& world() { return world_; }
  // The ranks that differ from this one along the axis only.
  Communicator& along(Axis axis) { return *groups_[static_cast<size_t>(axis)]; }
  // The ranks that see different data of the same weights: along dp, shard and cp. Dense gradients
  // sum over it. Ordered by (dp, shard, cp).
  Communicator& data() { return *data_; }
  // Those of them that are at the same place along shard: along dp and cp.
  Communicator& replicas() { return *replicas_; }

 private:
  Communicator& world_;
  MeshShape shape_;
  Coordinates coordinates_;
  std::array<std::unique_ptr<Communicator>, kAxes> groups_;
  std::unique_ptr<Communicator> data_, replicas_;
};

}  // namespace sextant

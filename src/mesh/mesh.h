#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "mesh/axis.h"

namespace sextant {

// The coordinates of one rank and its process groups. Construction is collective over the world.
class Mesh {
 public:
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  const Coordinates& coordinates() const { return coordinates_; }
  int at(Axis axis) const { return coordinates_[static_cast<size_t>(axis)]; }

  Communicator& world() { return world_; }
  int world_rank() const { return world_.rank(); }
  // The process group along one axis: the other coordinates are equal.
  Communicator& along(Axis axis) { return *groups_[static_cast<size_t>(axis)]; }
  // The ranks with the same weights and different data: along dp, shard and cp, in this order.
  // Dense gradients are summed over this group.
  Communicator& data() { return *data_; }
  // The ranks of data() with the same shard coordinate: along dp and cp.
  Communicator& replicas() { return *replicas_; }

  // The group along an axis of experts. The gradients of experts are summed over edp.
  Communicator& along(ExpertAxis axis) { return *expert_groups_[static_cast<size_t>(axis)]; }
  // The ranks that have the experts of a layer between them: see expert_sources.
  Communicator& expert_sources() { return *expert_sources_; }
  // All ranks of the pipeline stage, and this rank alone.
  Communicator& stage() { return *stage_; }
  Communicator& alone() { return *alone_; }

 private:
  void join_experts();

  Communicator& world_;
  MeshShape shape_;
  Coordinates coordinates_;
  std::array<std::unique_ptr<Communicator>, kAxes> groups_;
  std::unique_ptr<Communicator> data_, replicas_;
  std::array<std::unique_ptr<Communicator>, kExpertAxes.size()> expert_groups_;
  std::unique_ptr<Communicator> own_sources_;  // where both ep and etp are above 1
  Communicator* expert_sources_ = nullptr;
  std::unique_ptr<Communicator> stage_, alone_;
};

}  // namespace sextant

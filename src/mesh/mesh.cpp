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
  join_experts();
  stage_ = join(std::array{Axis::Dp, Axis::Shard, Axis::Cp, Axis::Tp}, "stage");
  alone_ = world.subgroup(std::array{world.rank()}, "alone");
}

void Mesh::join_experts() {
  const int rank = world_.rank();
  SXT_CHECK(shape_.stage_size() % shape_.expert_size() == 0, Config, "ep = ", shape_.ep,
            " x etp = ", shape_.etp, " over ", shape_.stage_size(),
            " ranks of a pipeline stage: their product must divide them");
  for (const ExpertAxis axis : kExpertAxes)
    expert_groups_[static_cast<size_t>(axis)] =
        world_.subgroup(expert_group(shape_, axis, rank), name_of(axis), name_of(axis));
  expert_sources_ = &along(shape_.etp > 1 ? ExpertAxis::Etp : ExpertAxis::Ep);
  if (shape_.ep == 1 || shape_.etp == 1) return;
  own_sources_ = world_.subgroup(sextant::expert_sources(shape_, rank), "etp with ep", "etp+ep");
  expert_sources_ = own_sources_.get();
}

}  // namespace sextant

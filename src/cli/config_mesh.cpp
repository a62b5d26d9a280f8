#include "cli/config_mesh.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/range.h"
#include "cli/out_file.h"
#include "cli/pipeline_json.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "mesh/picture.h"
#include "program/groups.h"
#include "train/owners.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

Json mesh_json(const MeshShape& shape) {
  Json axes = Json::object(), groups = Json::object(), ranks = Json::array();
  for (int i = kAxes - 1; i >= 0; --i) {
    const Axis axis = static_cast<Axis>(i);
    axes[name_of(axis)] = shape.degree(axis);
    if (shape.degree(axis) > 1) groups[name_of(axis)] = groups_along(shape, {axis});
  }
  groups["data"] = groups_along(shape, {Axis::Dp, Axis::Shard, Axis::Cp});
  for (const ExpertAxis axis : used_expert_axes(shape))
    groups[name_of(axis)] = expert_groups(shape, axis);
  for (int rank = 0; rank < shape.size(); ++rank) {
    const Coordinates at = coordinates_of(shape, rank);
    Json coordinates = Json::object();
    for (int i = kAxes - 1; i >= 0; --i)
      coordinates[name_of(static_cast<Axis>(i))] = at[static_cast<size_t>(i)];
    ranks.push_back({{"rank", rank}, {"coordinates", coordinates}});
  }
  return {{"axes", axes}, {"size", shape.size()}, {"ranks", ranks}, {"groups", groups}};
}

Json state_json(const Preflight& flight, const ParallelConfig& parallel, int pipeline_rank,
                int shard) {
  const auto rank = static_cast<size_t>(owner_rank(parallel, pipeline_rank, shard));
  const MemoryEstimate& resident = flight.resident[rank];
  return {{"pipeline_rank", pipeline_rank},  {"shard", shard},
          {"weights", resident.weights},     {"gradients", resident.gradients},
          {"optimizer", resident.optimizer}, {"state", resident.state()},
          {"peak", flight.memory[rank].peak}};
}

Json group_json(const GroupSpec& group, int pipeline_rank, int shards) {
  Json ranges = Json::array();
  for (int shard = 0; shard < shards; ++shard) {
    const Range share = even_part(group.elements, shards, shard);
    ranges.push_back({share.begin, share.end});
  }
  return {{"name", group.name},
          {"pipeline_rank", pipeline_rank},
          {"elements", group.elements},
          {"duplicate", group.is_duplicated},
          {"ranges", ranges}};
}

Json owners_json(const Preflight& flight, const ParallelConfig& parallel) {
  Json groups = Json::array(), ranks = Json::array();
  for (int rank = 0; rank < parallel.pp; ++rank) {
    const RankPart part = part_of(flight.blueprint, flight.pipeline, rank);
    for (const GroupSpec& group : make_groups(flight.blueprint, part).groups)
      groups.push_back(
          group_json(group, rank, group.is_expert ? expert_shards(parallel) : parallel.shard));
    for (int shard = 0; shard < parallel.shard; ++shard)
      ranks.push_back(state_json(flight, parallel, rank, shard));
  }
  return {{"zero", parallel.zero},
          {"shard", parallel.shard},
          {"divides", divided_by(parallel)},
          {"groups", groups},
          {"shards", ranks}};
}

// Which of the mesh's ranks holds which layers; nothing without a pipeline.
std::string stages_text(const PipelineOutlook& outlook) {
  return outlook.ranks == 1 ? "" : "\n" + pipeline_text(outlook, "pipeline: ", 2);
}

}  // namespace

void show_mesh(Context& context, const Config& config) {
  check_listed_ranks(context, config);
  const MeshShape shape = mesh_shape(config.parallel);
  Config without_faults = config;  // whether a fault can strike is the business of a run
  without_faults.fault.inject.clear();
  const Preflight flight = forecast(without_faults, 0);
  const PipelineOutlook outlook =
      pipeline_outlook(flight.blueprint, flight.pipeline, config.parallel);
  if (!context.json) {
    print(mesh_picture(shape) + stages_text(outlook) + "\n" + owners_text(flight, config.parallel));
    return;
  }
  Json out = {{"mesh", mesh_json(shape)}, {"owners", owners_json(flight, config.parallel)}};
  if (config.parallel.pp > 1) out["pipeline"] = pipeline_json(outlook);
  print_json(out);
}

void write_mesh_svg(Context& context, const Config& config, const std::string& path) {
  check_out_file(context.storage, "--svg", path, "mesh.svg");
  write_out_file(context.storage, path, mesh_svg(mesh_shape(config.parallel)));
}

}  // namespace sextant::cli

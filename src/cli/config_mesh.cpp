#include "cli/config_mesh.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/share.h"
#include "blueprint/groups.h"
#include "blueprint/owners.h"
#include "blueprint/pipeline.h"
#include "cli/pipeline_json.h"
#include "cli/print.h"
#include "mesh/picture.h"
#include "train/preflight.h"

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
  for (int rank = 0; rank < shape.size(); ++rank) {
    const Coordinates at = coordinates_of(shape, rank);
    Json coordinates = Json::object();
    for (int i = kAxes - 1; i >= 0; --i)
      coordinates[name_of(static_cast<Axis>(i))] = at[static_cast<size_t>(i)];
    ranks.push_back({{"rank", rank}, {"coordinates", coordinates}});
  }
  return {{"axes", axes}, {"size", shape.size()}, {"ranks", ranks}, {"groups", groups}};
}

Json state_json(const Blueprint& blueprint, const MemoryQuestion& question) {
  const MemoryEstimate state = resident_memory(blueprint, question);
  return {{"pipeline_rank", question.pipeline_rank},
          {"shard", question.shard_rank},
          {"weights", state.weights},
          {"gradients", state.gradients},
          {"optimizer", state.optimizer},
          {"state", state.peak},
          {"peak", predict_memory(blueprint, question).peak}};
}

Json group_json(const GroupSpec& group, const MemoryQuestion& question) {
  Json ranges = Json::array();
  for (int shard = 0; shard < question.shard; ++shard) {
    const Share share = share_of(group.elements, question.shard, shard);
    ranges.push_back({share.begin, share.end});
  }
  return {{"name", group.name},
          {"pipeline_rank", question.pipeline_rank},
          {"elements", group.elements},
          {"twin", group.has_twin},
          {"ranges", ranges}};
}

Json owners_json(const Blueprint& blueprint, const Pipeline& pipeline, MemoryQuestion question) {
  Json groups = Json::array(), ranks = Json::array();
  for (int rank = 0; rank < pipeline.schedule.size(); ++rank) {
    question.pipeline_rank = rank;
    for (const GroupSpec& group : make_groups(blueprint, part_of(blueprint, pipeline, rank)).groups)
      groups.push_back(group_json(group, question));
    for (question.shard_rank = 0; question.shard_rank < question.shard; ++question.shard_rank)
      ranks.push_back(state_json(blueprint, question));
  }
  return {{"zero", question.zero},
          {"shard", question.shard},
          {"divides", divided_by(question)},
          {"groups", groups},
          {"shards", ranks}};
}

// Which of the mesh's ranks holds which layers; nothing without a pipeline.
std::string stages_text(const Config& config) {
  return config.parallel.pp == 1 ? ""
                                 : "\n" + pipeline_text(pipeline_outlook(config), "pipeline: ", 2);
}

}  // namespace

void show_mesh(Context& context, const Config& config) {
  const MeshShape shape = mesh_shape(config.parallel);
  const Blueprint blueprint = make_blueprint(config.model, tensor_part(config.parallel, 0));
  const Pipeline pipeline =
      make_pipeline(blueprint, config.parallel, static_cast<int>(config.batch.accumulation));
  const MemoryQuestion question = memory_question(config, pipeline, thread_count(config), 0);
  if (!context.json) {
    print(mesh_picture(shape) + stages_text(config) + "\n" + owners_text(blueprint, question));
    return;
  }
  Json out = {{"mesh", mesh_json(shape)}, {"owners", owners_json(blueprint, pipeline, question)}};
  if (config.parallel.pp > 1) out["pipeline"] = pipeline_json(pipeline_outlook(config));
  print_json(out);
}

void write_mesh_svg(Context& context, const Config& config, const std::string& path) {
  const std::string parent = parent_path(path);
  if (!parent.empty()) context.storage.make_directories(parent);
  replace_file(context.storage, path, mesh_svg(mesh_shape(config.parallel)));
}

}  // namespace sextant::cli

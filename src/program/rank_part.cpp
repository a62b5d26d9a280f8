#include "program/rank_part.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

bool RankPart::holds(const Blueprint& blueprint, LayerKind kind) const {
  return std::ranges::any_of(layers,
                             [&](size_t layer) { return blueprint.layers[layer].kind == kind; });
}

RankPart part_of(const Blueprint& blueprint, const Pipeline& pipeline, int rank) {
  const Schedule& schedule = pipeline.schedule;
  RankPart part;
  part.chunks.resize(static_cast<size_t>(schedule.chunks()));
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (const int micro : {0, schedule.micros - 1})  // copies of a stage run different micros
      if (schedule.rank_of(stage, micro) == rank)
        part.chunks[static_cast<size_t>(schedule.chunk_of(stage, micro))].stage = stage;
  for (RankPart::Chunk& chunk : part.chunks) {
    const Range& layers = pipeline.stages[static_cast<size_t>(chunk.stage)];
    chunk.layers.begin = static_cast<int64_t>(part.layers.size());
    for (int64_t layer = layers.begin; layer < layers.end; ++layer)
      part.layers.push_back(static_cast<size_t>(layer));
    chunk.layers.end = static_cast<int64_t>(part.layers.size());
  }
  for (const size_t layer : part.layers)
    part.keeps.push_back(pipeline.keeps.empty() ? Keep::All : pipeline.keeps[layer]);
  for (const size_t layer : part.layers)
    part.exchanges.push_back(blueprint.layers[layer].kind == LayerKind::Experts &&
                             !blueprint.experts.is_whole());
  const int ranks = schedule.size();
  if (ranks > 1 && schedule.placement == Placement::Dual) {
    part.duplicates = RankPart::Duplicates::Mirror;
    part.is_second = rank >= ranks / 2;
  } else if (ranks > 1 && schedule.placement == Placement::Loop && blueprint.model.tied) {
    part.duplicates = RankPart::Duplicates::Ends;
    part.is_second = rank == ranks - 1;
  }
  return part;
}

RankPart whole_model(const Blueprint& blueprint) {
  return part_of(blueprint, serial_pipeline(blueprint, 1), 0);
}

Pipeline serial_pipeline(const Blueprint& blueprint, int micros) {
  Pipeline pipeline;
  pipeline.schedule = {"serial", 1, micros, Placement::Loop, {{}}};
  for (int micro = 0; micro < micros; ++micro) {
    pipeline.schedule.ranks[0].push_back({Kind::F, 0, micro});
    pipeline.schedule.ranks[0].push_back({Kind::B, 0, micro});
  }
  pipeline.stages = {{0, static_cast<int64_t>(blueprint.layers.size())}};
  return pipeline;
}

std::string layers_text(const Blueprint& blueprint, const Range& stage) {
  std::string text;
  int64_t first = -1, last = -1;  // blocks: layer 0 is the embedding, then two layers per block
  for (int64_t layer = stage.begin; layer < stage.end; ++layer) {
    if (blueprint.layers[static_cast<size_t>(layer)].kind != LayerKind::Attention) continue;
    last = (layer - 1) / 2;
    if (first < 0) first = last;
  }
  if (stage.begin == 0) text = "embedding";
  if (first >= 0) {
    text += concat(text.empty() ? "" : ", ", first == last ? "layer " : "layers ", first);
    if (last > first) text += concat("-", last);
  }
  if (stage.end == static_cast<int64_t>(blueprint.layers.size()))
    text += concat(text.empty() ? "" : ", ", "head");
  return text;
}

}  // namespace sextant

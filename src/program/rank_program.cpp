#include "program/rank_program.h"

#include <algorithm>

#include "schedule/dependencies.h"

namespace sextant {
namespace {

// The first layer to recompute before the backward of `layer`; layer + 1 if none. Layers that keep
// nothing are recomputed with the layer before them, all at once before the backward of the last.
int64_t first_recomputed(const RankPart& part, const Range& layers, int64_t layer) {
  const auto keep = [&](int64_t at) { return part.keeps[static_cast<size_t>(at)]; };
  const bool comes_with_next = layer + 1 < layers.end && keep(layer + 1) == Keep::Nothing;
  if (keep(layer) == Keep::All || comes_with_next) return layer + 1;
  while (keep(layer) == Keep::Nothing) --layer;
  return layer;
}

std::vector<LayerUse> uses_of(const Schedule& schedule, const RankPart& part,
                              const Action& action) {
  std::vector<LayerUse> uses;
  if (!is_compute(action.kind)) return uses;
  const auto chunk = static_cast<size_t>(schedule.chunk_of(action.stage, action.micro));
  const Range& layers = part.chunks[chunk].layers;
  const Pass pass = action.kind == Kind::F   ? Pass::Forward
                    : action.kind == Kind::B ? Pass::Backward
                    : action.kind == Kind::I ? Pass::Input
                                             : Pass::Weight;
  for (int64_t i = 0; i < layers.size(); ++i) {
    const int64_t layer = pass == Pass::Forward ? layers.begin + i : layers.end - 1 - i;
    if (pass == Pass::Backward || pass == Pass::Input)
      for (int64_t again = first_recomputed(part, layers, layer); again <= layer; ++again)
        uses.push_back({Pass::Recompute, static_cast<int>(again), action.micro});
    uses.push_back({pass, static_cast<int>(layer), action.micro});
  }
  return uses;
}

}  // namespace

RankProgram make_program(const Pipeline& pipeline, const RankPart& part, int rank) {
  RankProgram program;
  program.actions = pipeline.schedule.ranks[static_cast<size_t>(rank)];
  for (size_t at = 0; at < program.actions.size();) {
    const size_t size = block_size(program.actions, at);
    const auto first = static_cast<int64_t>(program.uses.size());
    const std::vector<LayerUse> one = uses_of(pipeline.schedule, part, program.actions[at]);
    std::vector<LayerUse> other;
    if (size == 2) other = uses_of(pipeline.schedule, part, program.actions[at + 1]);
    for (size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
      if (i < one.size()) program.uses.push_back(one[i]);
      if (i < other.size()) program.uses.push_back(other[i]);
    }
    program.blocks.push_back({{static_cast<int64_t>(at), static_cast<int64_t>(at + size)},
                              {first, static_cast<int64_t>(program.uses.size())}});
    at += size;
  }
  return program;
}

}  // namespace sextant

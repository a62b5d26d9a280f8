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

// Whether the pass sends rows of tokens to experts of other ranks.
bool exchanges(const RankPart& part, const LayerUse& use) {
  const auto layer = static_cast<size_t>(use.layer);
  if (layer >= part.exchanges.size() || !part.exchanges[layer]) return false;
  const Keep keep = part.keeps[layer];
  if (use.pass == Pass::Recompute) return keep == Keep::Input || keep == Keep::Nothing;
  return use.pass != Pass::Weight;
}

// With a use for each phase of the passes that exchange rows.
std::vector<LayerUse> in_phases(const RankPart& part, const std::vector<LayerUse>& whole) {
  std::vector<LayerUse> uses;
  for (const LayerUse& use : whole) {
    uses.push_back(use);
    if (!exchanges(part, use)) continue;
    uses.pop_back();
    for (const Phase phase : {Phase::Dispatch, Phase::Compute, Phase::Combine})
      uses.push_back({use.pass, use.layer, use.micro, phase});
  }
  return uses;
}

// Where the turn that begins at `from` ends.
size_t end_of_turn(const std::vector<LayerUse>& uses, size_t from) {
  const auto starts = [](const LayerUse& use) {
    return use.phase == Phase::Dispatch || use.phase == Phase::Compute;
  };
  const auto start = std::find_if(uses.begin() + static_cast<int64_t>(from), uses.end(), starts);
  if (start == uses.end()) return std::min(from + 1, uses.size());
  return static_cast<size_t>(start - uses.begin()) + 1;
}

// The uses of two joined actions, each in its order, by turns.
std::vector<LayerUse> joined_uses(const RankPart& part, const std::vector<LayerUse>& one,
                                  const std::vector<LayerUse>& other) {
  const std::vector<LayerUse> sides[] = {in_phases(part, one), in_phases(part, other)};
  size_t at[] = {0, 0};
  std::vector<LayerUse> uses;
  while (at[0] < sides[0].size() || at[1] < sides[1].size())
    for (const int side : {0, 1}) {
      const size_t end = end_of_turn(sides[side], at[side]);
      for (; at[side] < end; ++at[side]) uses.push_back(sides[side][at[side]]);
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
    std::vector<LayerUse> uses = uses_of(pipeline.schedule, part, program.actions[at]);
    if (size == 2)
      uses = joined_uses(part, uses, uses_of(pipeline.schedule, part, program.actions[at + 1]));
    program.uses.insert(program.uses.end(), uses.begin(), uses.end());
    program.blocks.push_back({{static_cast<int64_t>(at), static_cast<int64_t>(at + size)},
                              {first, static_cast<int64_t>(program.uses.size())}});
    at += size;
  }
  return program;
}

}  // namespace sextant

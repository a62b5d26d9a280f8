#include "program/rank_program.h"

#include <algorithm>
#include <functional>

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

// Whether the use can wait for its first exchange of tokens while another one runs.
bool can_wait(const RankPart& part, const LayerUse& use) {
  const auto layer = static_cast<size_t>(use.layer);
  if (layer >= part.exchanges.size() || !part.exchanges[layer]) return false;
  const Keep keep = part.keeps[layer];
  if (use.pass == Pass::Recompute) return keep == Keep::Input || keep == Keep::Nothing;
  return use.pass != Pass::Weight;
}

// The uses of two joined actions, each in its order: in turn, if none exchanges tokens. Else of the
// next two, one that waits for tokens has the other one inside, if that does not; of two of a kind
// the one of the longer rest goes first, so that the next two are not of a kind.
std::vector<LayerUse> joined_uses(const RankPart& part, const std::vector<LayerUse>& one,
                                  const std::vector<LayerUse>& other) {
  const bool take_turns = std::ranges::none_of(part.exchanges, std::identity());
  std::vector<LayerUse> uses;
  size_t i = 0, j = 0;
  while (i < one.size() && j < other.size()) {
    const bool one_waits = can_wait(part, one[i]), other_waits = can_wait(part, other[j]);
    if (one_waits != other_waits) {
      uses.push_back(one_waits ? one[i] : other[j]);
      uses.push_back(one_waits ? other[j] : one[i]);
      uses.back().is_inside = true;
      ++i, ++j;
    } else {
      const bool is_one = take_turns ? i <= j : one.size() - i >= other.size() - j;
      uses.push_back(is_one ? one[i++] : other[j++]);
    }
  }
  uses.insert(uses.end(), one.begin() + static_cast<int64_t>(i), one.end());
  uses.insert(uses.end(), other.begin() + static_cast<int64_t>(j), other.end());
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

#include "program/keep.h"

namespace sextant {
namespace {

Keep keep_of(LayerKind kind, Recompute recompute) {
  if (kind != LayerKind::Attention && !is_feed_forward(kind)) return Keep::All;
  if (recompute == Recompute::Cheap) return Keep::Products;
  if (recompute == Recompute::Full) return is_feed_forward(kind) ? Keep::Nothing : Keep::Input;
  return recompute == Recompute::Selective && kind == LayerKind::Attention ? Keep::Outside
                                                                           : Keep::All;
}

}  // namespace

std::vector<Keep> keeps_of(const Blueprint& blueprint, Recompute recompute) {
  std::vector<Keep> keeps;
  for (const LayerSpec& layer : blueprint.layers) keeps.push_back(keep_of(layer.kind, recompute));
  return keeps;
}

std::vector<Keep> keeps_of(const Blueprint& blueprint, const std::vector<Range>& stages,
                           const MemoryConfig& memory) {
  std::vector<Keep> keeps = keeps_of(blueprint, memory.recompute);
  if (memory.recompute_layers == 0) return keeps;
  for (const Range& stage : stages) {
    int64_t blocks = 0;
    for (int64_t i = stage.begin; i < stage.end; ++i) {
      const auto layer = static_cast<size_t>(i);
      if (blueprint.layers[layer].kind == LayerKind::Attention) ++blocks;
      if (blocks > memory.recompute_layers) keeps[layer] = Keep::All;
    }
  }
  return keeps;
}

}  // namespace sextant

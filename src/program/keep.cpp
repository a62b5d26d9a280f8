#include "program/keep.h"

namespace sextant {
namespace {

Keep keep_of(LayerKind kind, Recompute recompute) {
  if (kind != LayerKind::Attention && !is_feed_forward(kind)) return Keep::All;
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

}  // namespace sextant

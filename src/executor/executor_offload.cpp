#include <algorithm>

#include "executor/executor.h"

namespace sextant {

void Executor::offload_to(HostArena& host) {
  offload_.emplace(stream_, host);
}

HostSaved* Executor::hosted_of(const LayerUse& use) {
  const auto layer = static_cast<size_t>(use.layer);
  const LayerKind kind = model_.blueprint().layers[model_.part().layers[layer]].kind;
  if (!offload_ || !is_step() || (kind != LayerKind::Attention && !is_feed_forward(kind)))
    return nullptr;
  const Range& layers = model_.part().chunks[chunk_of_[layer]].layers;
  return &activations_of(use).hosted[layer - static_cast<size_t>(layers.begin)];
}

// The activations of this use are needed now, those of the next one that is no forward arrive
// during it. Joined actions take turns, so that is one of the next two that begin a pass.
void Executor::fetch_ahead(int64_t use) {
  const std::vector<LayerUse>& uses = plan_->program.uses;
  const auto fetch = [&](const LayerUse& one) {
    HostSaved* hosted = hosted_of(one);
    if (hosted != nullptr) offload_->fetch(*hosted);
  };
  const auto now = static_cast<size_t>(use);
  if (uses[now].pass != Pass::Forward && uses[now].begins()) fetch(uses[now]);
  int begun = 0;
  for (size_t next = now + 1; next < uses.size() && begun < 2; ++next) {
    if (!uses[next].begins()) continue;
    if (uses[next].pass != Pass::Forward) return fetch(uses[next]);
    ++begun;
  }
}

}  // namespace sextant

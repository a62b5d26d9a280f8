// How the executor runs one layer of one micro-batch.
#include <utility>

#include "base/error.h"
#include "executor/executor.h"

namespace sextant {

// Makes them if the micro-batch has none in this chunk yet.
Executor::Activations& Executor::activations_of(const LayerUse& use) {
  const size_t chunk = chunk_of_[static_cast<size_t>(use.layer)];
  Activations& kept = cells_[chunk * micros_.size() + static_cast<size_t>(use.micro)].kept;
  if (!kept.saved.empty()) return kept;
  std::vector<Activations>& spares = spares_[chunk];
  if (spares.empty()) {
    const auto layers = static_cast<size_t>(model_.part().chunks[chunk].layers.size());
    spares.push_back({std::vector<Saved>(layers), std::vector<HostSaved>(offload_ ? layers : 0)});
  }
  kept = std::move(spares.back());
  spares.pop_back();
  return kept;
}

void Executor::use(int64_t index) {
  if (offload_ && is_step()) fetch_ahead(index);
  const LayerUse& use = plan_->program.uses[static_cast<size_t>(index)];
  const auto layer = static_cast<size_t>(use.layer);
  const size_t chunk = chunk_of_[layer];
  Cell& own = cells_[chunk * micros_.size() + static_cast<size_t>(use.micro)];
  Activations& kept = activations_of(use);
  const std::optional<MicroBatch>& batch = micros_[static_cast<size_t>(use.micro)];
  SXT_CHECK(batch.has_value(), Internal, "layer ", use.layer, " of micro-batch ", use.micro,
            ", which is not on the device");
  const Micro& micro = batch->micro();
  Saved& saved = kept.saved[layer - static_cast<size_t>(model_.part().chunks[chunk].layers.begin)];
  HostSaved* hosted = hosted_of(use);
  if (hosted != nullptr && use.pass != Pass::Forward && use.begins())
    offload_->restore(*hosted, saved);
  if (use.pass == Pass::Forward) {
    own.x = model_.forward(stream_, micro, use, std::move(own.x), saved);
    if (!is_step() && use.ends()) saved.clear();
  } else if (use.pass == Pass::Recompute) {
    own.recomputed = model_.forward(stream_, micro, use, std::move(own.recomputed), saved);
  } else {
    own.recomputed = {};
    Tensor dx = model_.backward(stream_, micro, use, own.dy, saved);
    if (use.pass != Pass::Weight && use.ends()) own.dy = std::move(dx);
  }
  if (hosted != nullptr && use.pass == Pass::Forward && use.ends())
    offload_->store(saved, *hosted);
  else if (offload_)
    offload_->free_stored();
}

}  // namespace sextant

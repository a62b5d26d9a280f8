#include "executor/activation_offload.h"

#include <utility>

#include "parallel/activation.h"

namespace sextant {
namespace {

// Any slot of any layer, by its number.
enum class AnySlot : size_t { Count = Saved::kSlots };

constexpr AnySlot slot(size_t i) {
  return static_cast<AnySlot>(i);
}

}  // namespace

void ActivationOffload::store(Saved& saved, HostSaved& kept) {
  free_stored();
  for (size_t i = 0; i < Saved::kSlots; ++i) {
    const Tensor& tensor = saved[slot(i)];
    kept.same_as[i] = -1;
    if (!tensor) continue;
    for (size_t other = 0; other < i; ++other)
      if (saved[slot(other)] && saved[slot(other)].raw() == tensor.raw() &&
          saved[slot(other)].bytes() == tensor.bytes()) {
        kept.same_as[i] = static_cast<int>(other);
        kept.host[i] = kept.host[other].view(tensor.shape());
      }
    if (kept.same_as[i] >= 0) continue;
    kept.host[i] = host_.allocate(Category::Activations, tensor.dtype(), tensor.shape());
    stored_ = copy_to_host_arena(stream_, host_, kept.host[i], tensor);
    kept.is_kept = true;
  }
  leaving_ = std::exchange(saved, Saved());
}

void ActivationOffload::free_stored() {
  if (stored_) await_copy(stream_, *std::exchange(stored_, {}));
  leaving_.clear();
}

void ActivationOffload::fetch(HostSaved& kept) {
  if (!kept.is_kept || kept.fetched) return;
  for (size_t i = 0; i < Saved::kSlots; ++i) {
    if (!kept.host[i] || kept.same_as[i] >= 0) continue;
    kept.device[i] = allocate_activation(stream_, kept.host[i], kept.host[i].shape());
    kept.fetched = copy_to_device(stream_, host_, kept.device[i], kept.host[i]);
  }
}

void ActivationOffload::restore(HostSaved& kept, Saved& saved) {
  if (!kept.is_kept) return;
  fetch(kept);
  await_copy(stream_, *kept.fetched);
  for (size_t i = 0; i < Saved::kSlots; ++i) {
    const auto from =
        static_cast<size_t>(kept.same_as[i] >= 0 ? kept.same_as[i] : static_cast<int>(i));
    if (kept.device[from]) saved[slot(i)] = kept.device[from].view(kept.host[i].shape());
  }
  kept = HostSaved();
}

}  // namespace sextant

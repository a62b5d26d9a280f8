#pragma once
#include <array>
#include <optional>

#include "model/layer.h"
#include "tensor/host_arena.h"

namespace sextant {

// The saved activations of one layer and micro-batch in host memory.
struct HostSaved {
  std::array<Tensor, Saved::kSlots> host = {};    // empty slots have no tensor of their own
  std::array<Tensor, Saved::kSlots> device = {};  // copies on the device that are under way
  std::array<int, Saved::kSlots> same_as = {};    // slot that holds the same tensor; -1: none
  bool is_kept = false;                           // in host memory
  std::optional<HostCopy> fetched = {};           // the last copy back, once issued
};

// Moves activations to host memory after forward and back before backward. Device memory of a layer
// is freed once the next one has run, so that its copy overlaps with that layer's work.
class ActivationOffload {
 public:
  ActivationOffload(Stream& stream, HostArena& host) : stream_(stream), host_(host) {}

  void store(Saved& saved, HostSaved& kept);
  void fetch(HostSaved& kept);                  // issues the copies back, once
  void restore(HostSaved& kept, Saved& saved);  // fetch, and waits for it
  // Frees the device memory of what was stored before.
  void free_stored();

 private:
  Stream& stream_;
  HostArena& host_;
  Saved leaving_;
  std::optional<HostCopy> stored_;  // the last copy of `leaving_`
};

}  // namespace sextant

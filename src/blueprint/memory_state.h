#pragma once
#include <vector>

#include "blueprint/groups.h"
#include "blueprint/memory_walk.h"

namespace sextant {

// The training state of one rank through a step: weights, gradients, optimizer, and what of them is
// whole only for a while. Brackets each layer's work as the model does:
//   a window   consecutive uses of one group's weights. ZeRO-3 has its weights whole from before
//              its first use (one window earlier: they are gathered ahead) to after its last.
//   a bucket   a group's whole gradient under ZeRO-2 and 3: made from the first to the last layer
//              of the group in backward, then reduced until the next one is made. Without division,
//              a tied matrix has one too after the first micro-batch, and adds it when it is made.
// A place is a layer in a pass: 0 ... layers - 1 forward, then the layers in reverse order.
class StateWalk {
 public:
  // Takes what stays through the step. `micros` micro-batches are walked.
  StateWalk(MemoryWalk& walk, const Blueprint& blueprint, const MemoryQuestion& question,
            int micros);

  void before(int micro, size_t place);
  void after(int micro, size_t place);
  void finish_gradients();

 private:
  void find_windows(const Blueprint& blueprint, int micros);
  void take_resident(const MemoryQuestion& question);
  int64_t bytes(int group) const { return bytes_[static_cast<size_t>(group)]; }
  bool has_bucket(int micro, int group) const;
  bool is_backward(size_t place) const { return place >= layers_; }
  size_t layer_at(size_t place) const {
    return is_backward(place) ? 2 * layers_ - 1 - place : place;
  }

  MemoryWalk& walk_;
  GroupPlan plan_;
  size_t layers_;
  int zero_;
  std::vector<int64_t> bytes_;                    // of each group's whole vector
  std::vector<size_t> first_layer_, last_layer_;  // of each group, in forward order
  std::vector<bool> is_shared_;                   // by group: other layers lie between its own
  std::vector<int> window_at_;                    // by micro and place; -1: no weights are read
  std::vector<int> group_of_window_;
  int gathered_ = -1;   // the last window whose weights were asked for
  int in_flight_ = -1;  // the group whose bucket is being reduced
};

}  // namespace sextant

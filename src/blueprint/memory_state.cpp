#include "blueprint/memory_state.h"

#include <algorithm>

#include "base/share.h"

namespace sextant {
namespace {

constexpr auto kWeights = &MemoryEstimate::weights;
constexpr auto kGradients = &MemoryEstimate::gradients;
constexpr auto kCommunication = &MemoryEstimate::communication;

}  // namespace

StateWalk::StateWalk(MemoryWalk& walk, const Blueprint& blueprint, const MemoryQuestion& question,
                     int micros)
    : walk_(walk),
      plan_(make_groups(blueprint)),
      layers_(blueprint.layers.size()),
      zero_(question.shard > 1 ? question.zero : 0),
      first_layer_(plan_.groups.size(), layers_),
      last_layer_(plan_.groups.size(), 0) {
  for (const GroupSpec& group : plan_.groups)
    bytes_.push_back(group.elements * question.element_size);
  std::vector<size_t> count(plan_.groups.size());
  for (size_t layer = 0; layer < layers_; ++layer) {
    const auto group = static_cast<size_t>(plan_.group_of_layer[layer]);
    first_layer_[group] = std::min(first_layer_[group], layer);
    last_layer_[group] = layer;
    ++count[group];
  }
  for (size_t group = 0; group < count.size(); ++group)
    is_shared_.push_back(last_layer_[group] - first_layer_[group] + 1 != count[group]);
  find_windows(blueprint, micros);
  take_resident(question);
}

void StateWalk::find_windows(const Blueprint& blueprint, int micros) {
  for (int micro = 0; micro < micros; ++micro)
    for (size_t place = 0; place < 2 * layers_; ++place) {
      const size_t layer = layer_at(place);
      if (is_backward(place) && !reads_weights_in_backward(blueprint.layers[layer].kind)) {
        window_at_.push_back(-1);
        continue;
      }
      const int group = plan_.group_of_layer[layer];
      if (group_of_window_.empty() || group_of_window_.back() != group)
        group_of_window_.push_back(group);
      window_at_.push_back(static_cast<int>(group_of_window_.size()) - 1);
    }
}

void StateWalk::take_resident(const MemoryQuestion& question) {
  int64_t whole = 0, owned = 0;
  for (const GroupSpec& group : plan_.groups) {
    whole += group.elements;
    owned += share_of(group.elements, question.shard, question.shard_rank).size();
  }
  const int64_t e = question.element_size;
  walk_.take((zero_ >= 3 ? owned : whole) * e, kWeights);
  walk_.take((zero_ >= 2 ? owned : whole) * e, kGradients);
  walk_.take((zero_ >= 1 ? owned : whole) * question.moments * question.moment_size,
             &MemoryEstimate::optimizer);
}

bool StateWalk::has_bucket(int micro, int group) const {
  return zero_ >= 2 || (micro > 0 && is_shared_[static_cast<size_t>(group)]);
}

void StateWalk::before(int micro, size_t place) {
  const int window = window_at_[static_cast<size_t>(micro) * 2 * layers_ + place];
  if (zero_ >= 3 && window >= 0) {
    const int ahead = std::min(window + 1, static_cast<int>(group_of_window_.size()) - 1);
    for (; gathered_ < ahead; ++gathered_)
      walk_.take(bytes(group_of_window_[static_cast<size_t>(gathered_ + 1)]), kWeights);
  }
  const int group = plan_.group_of_layer[layer_at(place)];
  const auto index = static_cast<size_t>(group);
  if (!is_backward(place) || layer_at(place) != last_layer_[index]) return;
  if (!has_bucket(micro, group)) return;
  if (in_flight_ == group) finish_gradients();  // of the micro-batch before: it has one home
  walk_.take(bytes(group), kGradients);
}

void StateWalk::after(int micro, size_t place) {
  const size_t use = static_cast<size_t>(micro) * 2 * layers_ + place;
  const int window = window_at_[use];
  if (zero_ >= 3 && window >= 0) {
    size_t next = use + 1;
    while (next < window_at_.size() && window_at_[next] < 0) ++next;
    if (next == window_at_.size() || window_at_[next] != window)
      walk_.free(bytes(group_of_window_[static_cast<size_t>(window)]), kWeights);
  }
  const int group = plan_.group_of_layer[layer_at(place)];
  const auto index = static_cast<size_t>(group);
  if (!is_backward(place) || layer_at(place) != first_layer_[index]) return;
  if (!has_bucket(micro, group)) return;
  if (zero_ < 2) {  // added to the kept gradient
    walk_.free(bytes(group), kGradients);
    return;
  }
  finish_gradients();
  walk_.move(bytes(group), kGradients, kCommunication);
  in_flight_ = group;
}

void StateWalk::finish_gradients() {
  if (in_flight_ >= 0) walk_.free(bytes(in_flight_), kCommunication);
  in_flight_ = -1;
}

}  // namespace sextant

#include "blueprint/memory.h"

#include <algorithm>

#include "blueprint/memory_layers.h"
#include "blueprint/memory_state.h"

namespace sextant {
namespace {

// The first micro-batch of a step finds nothing in flight and the last one has nothing to gather
// ahead for; all between are the same.
constexpr int64_t kDistinctMicros = 3;

void walk_micro(MemoryWalk& walk, StateWalk& state, const ActivationSizes& sizes,
                const Blueprint& blueprint, int micro) {
  const size_t layers = blueprint.layers.size();
  for (size_t place = 0; place < 2 * layers; ++place) {
    const bool backward = place >= layers;
    if (place == layers) walk.free(sizes.token_value);  // the loss, once it is summed
    const LayerKind kind = blueprint.layers[backward ? 2 * layers - 1 - place : place].kind;
    state.before(micro, place);
    backward ? walk_backward(walk, sizes, kind) : walk_forward(walk, sizes, kind);
    state.after(micro, place);
  }
}

}  // namespace

MemoryEstimate predict_memory(const Blueprint& blueprint, const MemoryQuestion& question) {
  const int micros = static_cast<int>(std::min(question.accumulation, kDistinctMicros));
  const ModelConfig& model = blueprint.model;
  const int64_t rope = model.family == Family::Gpt2
                           ? 0
                           : 2 * model.seq * (model.head_dim / 2) * question.element_size;
  const ActivationSizes sizes(blueprint, question);
  MemoryWalk walk;
  walk.take(rope + question.kernel_scratch, &MemoryEstimate::workspace);
  walk.take(4 * sizes.ids);  // tokens, targets, positions, starts
  StateWalk state(walk, blueprint, question, micros);
  for (int micro = 0; micro < micros; ++micro) walk_micro(walk, state, sizes, blueprint, micro);
  state.finish_gradients();
  return walk.most();
}

MemoryEstimate resident_memory(const Blueprint& blueprint, const MemoryQuestion& question) {
  MemoryWalk walk;
  StateWalk(walk, blueprint, question, 1);
  return walk.now();
}

}  // namespace sextant

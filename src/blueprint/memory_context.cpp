#include "blueprint/memory_context.h"

namespace sextant {
namespace {

// Keys and values of all ranks: theirs one after the other, then in the order of the sequence.
void gather(MemoryWalk& walk, const ActivationSizes& s) {
  const int64_t all = s.context.degree * s.kv;
  walk.take(s.kv);
  walk.take(all);
  walk.free(s.kv);
  walk.take(all);
  walk.free(all);
}

// Gradients of all of them, summed: the way back. Leaves nothing.
void reduce(MemoryWalk& walk, const ActivationSizes& s) {
  const int64_t all = s.context.degree * s.kv;
  walk.take(all);
  walk.free(all);
  walk.take(s.kv);
  walk.free(all);
  walk.free(s.kv);
}

void ring_forward(MemoryWalk& walk, const ActivationSizes& s) {
  const int ring = s.context.ring();
  walk.take(s.kv);
  for (int step = 0; step < ring; ++step) {
    const bool is_last = step == ring - 1;
    if (!is_last) walk.take(s.kv);  // comes in
    if (step > 0) {
      walk.take(s.attended + s.lse);
      walk.free(s.attended + s.lse);
    }
    walk.free(s.kv);
  }
}

void ring_backward(MemoryWalk& walk, const ActivationSizes& s) {
  const int ring = s.context.ring();
  walk.take(s.lse);  // delta
  walk.take(s.core_qkv);
  walk.take(s.kv);
  for (int step = 0; step < ring; ++step) {
    const bool is_first = step == 0, is_last = step == ring - 1;
    if (!is_last) walk.take(s.kv);   // comes in
    if (!is_first) walk.take(s.kv);  // gradients that come in
    walk.take(s.kv);                 // and this rank's
    if (!is_last) walk.free(s.kv);
    if (!is_first) walk.free(2 * s.kv);  // those sent in the step before, and those that came
  }
  walk.take(s.kv);  // the gradients of its own keys
  walk.free(3 * s.kv + s.lse);
}

void gathered_backward(MemoryWalk& walk, const ActivationSizes& s) {
  const int64_t all = s.context.degree * s.kv;
  gather(walk, s);
  walk.take(s.lse);  // delta
  walk.take(s.core_qkv);
  walk.take(all);          // gradients
  walk.free(all + s.lse);  // keys and values, delta
  reduce(walk, s);
}

}  // namespace

void core_forward(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.exchanges) {
    if (s.core_qkv != s.qkv) {  // key-value heads are repeated
      walk.take(s.core_qkv);
      walk.free(s.qkv);
    }
    walk.take(s.core_qkv);
    walk.free(s.core_qkv);
  }
  walk.take(s.attended + s.lse);
  if (s.context.gathers) {
    gather(walk, s);
    walk.free(s.context.degree * s.kv);
  } else if (s.context.ring() > 1) {
    ring_forward(walk, s);
  }
  if (!s.exchanges) return;
  walk.take(2 * s.attended);
  walk.free(s.attended);
}

void core_backward(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.exchanges) {
    walk.take(s.attended);
    walk.free(s.attended);
  }
  if (s.context.gathers)
    gathered_backward(walk, s);
  else if (s.context.ring() > 1)
    ring_backward(walk, s);
  else
    walk.take(s.core_qkv);
  walk.free(s.attended);          // gradient of the output
  walk.free(s.core_qkv + s.lse);  // what was kept
  if (!s.exchanges) return;
  walk.free(s.attended);
  walk.take(s.core_qkv);
  walk.free(s.core_qkv);
  if (s.core_qkv == s.qkv) return;
  walk.take(s.qkv);  // the sum over repeated heads
  walk.free(s.core_qkv);
}

}  // namespace sextant

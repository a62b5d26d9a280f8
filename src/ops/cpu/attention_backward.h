#pragma once
#include "ops/cpu/attention_tile.h"

namespace sextant::cpu {

// The query heads of one key-value head of one row of the batch; head i of the group lies i *
// head_dim further in q, dq, out and dout, and i * seq further in lse.
template <class T>
struct GroupBackward {
  const T *q = nullptr, *k = nullptr, *v = nullptr;  // rows of qkv
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;     // rows of dqkv
  const T *out = nullptr, *dout = nullptr;           // rows of out
  const T* lse = nullptr;
  int64_t qkv_stride = 0, out_stride = 0, head_dim = 0, group = 0, seq = 0;
  Visible visible;
};

// Gradients of the keys and values of the tile of keys at `tile`; with Both also what this tile
// adds to the gradients of the queries, which is right when the tiles are called in ascending
// order. The sums are the same chains either way, so all of these give the same bits.
enum class Gradients { KeysValues, Both };
template <class T>
void tile_of_keys_backward(const GroupBackward<T>& group, int64_t tile, Gradients gradients,
                           std::span<std::byte> scratch);

// Gradients of queries [begin, end) of one head of the group; begin is a multiple of kQueries.
template <class T>
void queries_backward(const GroupBackward<T>& group, int64_t head, int64_t begin, int64_t end,
                      std::span<std::byte> scratch);

}  // namespace sextant::cpu

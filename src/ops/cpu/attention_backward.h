#pragma once
#include "ops/cpu/attention_forward.h"
#include "ops/dispatch.h"

namespace sextant::cpu {

// The query heads of one key-value head of one row of the batch; head i of the group lies i *
// head_dim further in q, dq, out and dout, and i * seq further in lse and delta.
// Gradients are of type G, that of q or wider.
template <class T, class G = T>
struct GroupBackward {
  const T* q = nullptr;  // a row for each query
  G* dq = nullptr;
  const T *k = nullptr, *v = nullptr;  // a row for each key
  G *dk = nullptr, *dv = nullptr;
  const T *out = nullptr, *dout = nullptr;
  const Compute<T>*lse = nullptr, *delta = nullptr;  // without delta it is made of dout and out
  int64_t q_stride = 0, kv_stride = 0, out_stride = 0, head_dim = 0, group = 0;
  int64_t seq = 0, kv_seq = 0;
  Visible visible;
  Write write_dq = Write::Replace;   // or Chain
  Write write_dkv = Write::Replace;  // or Add
};

// dq of the queries [begin, end) of one head that share a tile with none that sees a key: the
// functions below pass these over.
template <class T, class G>
void clear_idle_queries(const GroupBackward<T, G>& group, int64_t head, int64_t begin, int64_t end);

// Gradients of the keys and values of the tile of keys at `tile`; with Both also what this tile
// adds to the gradients of the queries, which is right when the tiles are called in ascending
// order. Sums wait in dq between tiles then, so Both is for types that hold them unrounded: f32 and
// f64. The sums are the same chains either way, so all of these give the same bits.
enum class Gradients { KeysValues, Both };
template <class T, class G>
void tile_of_keys_backward(const GroupBackward<T, G>& group, int64_t tile, Gradients gradients,
                           std::span<std::byte> scratch);

// Gradients of queries [begin, end) of one head of the group, at most kMostQueries; begin is a
// multiple of kQueries.
template <class T, class G>
void queries_backward(const GroupBackward<T, G>& group, int64_t head, int64_t begin, int64_t end,
                      std::span<std::byte> scratch);

}  // namespace sextant::cpu

#pragma once
#include "ops/cpu/attention_forward.h"
#include "ops/heads.h"
#include "tensor/stream.h"

namespace sextant::cpu {

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// How many queries one piece of work has: as many as share packed keys well, fewer where that would
// leave threads idle. Does not change bits.
inline int64_t queries_per_piece(const Heads& heads, int threads) {
  const int64_t wanted = divide_up(4 * threads, heads.batch * heads.heads);
  const int64_t most = std::max<int64_t>(1, heads.seq / kQueries);
  const int64_t pieces = std::max(divide_up(heads.seq, kMostQueries), std::min(wanted, most));
  return divide_up(divide_up(heads.seq, pieces), kStrip) * kStrip;
}

// f(row of the batch, head, begin, end, thread) over pieces of queries. Later queries see more
// keys, so they come first: the threads then end together.
template <class F>
void for_queries(Stream& stream, const Heads& heads, int64_t per_piece, F&& f) {
  const int64_t pieces = divide_up(heads.seq, per_piece), rows = heads.batch * heads.heads;
  stream.team().for_pieces(pieces * rows, 1, [&](int64_t piece, int64_t, int thread) {
    const int64_t begin = (pieces - 1 - piece / rows) * per_piece;
    const int64_t row = piece % rows;
    f(row / heads.heads, row % heads.heads, begin, std::min(heads.seq, begin + per_piece), thread);
  });
}

// Query, key and value of one head within qkv, its place within out.
template <class T>
HeadForward<T> head_of(Tensor& out, const Tensor& qkv, const Heads& heads, int64_t row,
                       int64_t head) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const T* queries =
      qkv.data<T>() + row * heads.seq * heads.qkv_width() + head / group * (group + 2) * dim;
  HeadForward<T> h;
  h.q = queries + head % group * dim;
  h.k = queries + group * dim;
  h.v = h.k + dim;
  h.out = out.data<T>() + row * heads.seq * heads.out_width() + head * dim;
  h.q_stride = h.kv_stride = heads.qkv_width();
  h.out_stride = heads.out_width();
  h.head_dim = dim;
  return h;
}

}  // namespace sextant::cpu

#pragma once
#include "ops/cpu/attention_backward.h"
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
template <class T, class O = T>
HeadForward<T, O> head_of(Tensor& out, const Tensor& qkv, const Heads& heads, int64_t row,
                          int64_t head) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const T* queries =
      qkv.data<T>() + row * heads.seq * heads.qkv_width() + head / group * (group + 2) * dim;
  HeadForward<T, O> h;
  h.q = queries + head % group * dim;
  h.k = queries + group * dim;
  h.v = h.k + dim;
  h.out = out.data<O>() + row * heads.seq * heads.out_width() + head * dim;
  h.q_stride = h.kv_stride = heads.qkv_width();
  h.out_stride = heads.out_width();
  h.head_dim = dim;
  return h;
}

// The part of a group that lies with the queries: all but keys, values and what is seen of them.
template <class T, class G = T>
GroupBackward<T, G> queries_of_group(Tensor& dqkv, const Tensor& dout, const Tensor& lse,
                                     const Tensor& qkv, const Heads& heads, int64_t row,
                                     int64_t kv_head) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const int64_t q = row * heads.seq * heads.qkv_width() + kv_head * (group + 2) * dim;
  GroupBackward<T, G> g;
  g.q = qkv.data<T>() + q;
  g.dq = dqkv.data<G>() + q;
  g.dout = dout.data<T>() + row * heads.seq * heads.out_width() + kv_head * group * dim;
  g.lse = lse.data<Compute<T>>() + (row * heads.heads + kv_head * group) * heads.seq;
  g.q_stride = heads.qkv_width();
  g.out_stride = heads.out_width();
  g.head_dim = dim;
  g.group = group;
  g.seq = heads.seq;
  return g;
}

// The backward of every group; group_at(row of the batch, key-value head) is a GroupBackward.
template <class F>
void backward_groups(Stream& stream, const Heads& heads, int64_t kv_seq, bool is_narrow,
                     F&& group_at) {
  const int64_t groups = heads.batch * heads.kv_heads, tiles = divide_up(kv_seq, kKeys);
  const auto group = [&](int64_t i) { return group_at(i / heads.kv_heads, i % heads.kv_heads); };
  // A group on one thread takes five products a tile. Where groups are few, its tiles go to all
  // threads and the queries' gradients are a second pass: seven products, the same bits. Narrow
  // types always take the second pass, which sums dq in f32 and rounds it once.
  const int64_t threads = stream.threads();
  if (!is_narrow && 5 * divide_up(groups, threads) * threads <= 7 * groups) {
    stream.team().for_pieces(groups, 1, [&](int64_t i, int64_t, int thread) {
      const auto g = group(i);
      for (int64_t head = 0; head < g.group; ++head) clear_idle_queries(g, head, 0, g.seq);
      for (int64_t tile = 0; tile < tiles; ++tile)
        tile_of_keys_backward(g, tile * kKeys, Gradients::Both, stream.thread_scratch(thread));
    });
    return;
  }
  stream.team().for_pieces(groups * tiles, 1, [&](int64_t piece, int64_t, int thread) {
    tile_of_keys_backward(group(piece % groups), piece / groups * kKeys, Gradients::KeysValues,
                          stream.thread_scratch(thread));
  });
  const int64_t per_piece =
      divide_up(queries_per_piece(heads, stream.threads()), kQueries) * kQueries;
  for_queries(stream, heads, per_piece,
              [&](int64_t row, int64_t head, int64_t begin, int64_t end, int thread) {
                const auto g = group_at(row, head / heads.group());
                clear_idle_queries(g, head % heads.group(), begin, end);
                queries_backward(g, head % heads.group(), begin, end,
                                 stream.thread_scratch(thread));
              });
}

}  // namespace sextant::cpu

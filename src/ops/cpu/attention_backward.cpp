// The trick: probabilities are computed again from the scores and the saved log-sum-exp, tile by
// tile. With P the probabilities, D = rowsum(dout * out), dS = P * (dout v^T - D):
//   dv = P^T dout    dk = scale dS^T q    dq = scale dS k
#include "ops/cpu/attention_backward.h"

#include <numbers>
#include <utility>

#include "ops/cpu/attention_pack.h"

namespace sextant::cpu {
namespace {

// Scratch of one thread.
template <class T>
struct Tiles {
  const AttentionKernels<T>& kernels = best_attention_kernels<T>();
  T *keys_across, *values_across;  // panels of the transposed tile of keys, of values
  T* keys;                         // panels of the tile of keys
  T *queries, *douts;              // panels of the tile of queries, of dout
  T *p, *ds;                       // [kQueries, kKeys]
  T *dk, *dv;                      // [kKeys, width]
  T* dq;                           // [kMostQueries, width]

  Tiles(std::span<std::byte> scratch, int64_t head_dim) {
    Carver carver(scratch);
    const int64_t width = whole_panels<T>(head_dim);
    keys_across = carver.take<T>(kKeys * head_dim);
    values_across = carver.take<T>(kKeys * head_dim);
    keys = carver.take<T>(kKeys * width);
    queries = carver.take<T>(kQueries * width);
    douts = carver.take<T>(kQueries * width);
    p = carver.take<T>(kQueries * kKeys);
    ds = carver.take<T>(kQueries * kKeys);
    dk = carver.take<T>(kKeys * width);
    dv = carver.take<T>(kKeys * width);
    dq = carver.take<T>(kMostQueries * width);
  }
};

// Queries [query, query + rows) of one head, and a tile of keys.
struct Pair {
  int64_t head = 0, query = 0, rows = 0, tile = 0;
  int64_t strips() const { return (rows + kStrip - 1) / kStrip; }
  int64_t strip_rows(int64_t strip) const { return std::min(kStrip, rows - strip * kStrip); }
  Columns seen(const Visible& visible, int64_t strip) const {
    const int64_t first = query + strip * kStrip;
    return visible.keys(first, first + strip_rows(strip) - 1, tile);
  }
};

template <class T, class G, class F = Compute<T>>
void pack_keys(const GroupBackward<T, G>& g, const Tiles<F>& t, int64_t tile) {
  const double scale = 1 / std::sqrt(static_cast<double>(g.head_dim));
  const int64_t count = std::min(kKeys, g.kv_seq - tile);
  const T* k = g.k + tile * g.kv_stride;
  pack_transposed(t.keys_across, k, g.kv_stride, count, g.head_dim,
                  static_cast<F>(std::numbers::log2e * scale));
  pack_panels(t.keys, k, g.kv_stride, count, g.head_dim, kKeys, static_cast<F>(scale));
  pack_transposed(t.values_across, g.v + tile * g.kv_stride, g.kv_stride, count, g.head_dim, F{1});
}

// rowsum(dout * out) of the pair's queries.
template <class T, class G>
void deltas_of(Compute<T>* delta, const GroupBackward<T, G>& g, const Pair& pair) {
  if (g.delta != nullptr) {
    std::copy_n(g.delta + pair.head * g.seq + pair.query, pair.rows, delta);
    return;
  }
  const int64_t at = pair.head * g.head_dim + pair.query * g.out_stride;
  const T *dout = g.dout + at, *out = g.out + at;
  for (int64_t row = 0; row < pair.rows; ++row) {
    prefetch_row(dout + (row + kAhead) * g.out_stride, g.head_dim);
    prefetch_row(out + (row + kAhead) * g.out_stride, g.head_dim);
    delta[row] = dot(dout + row * g.out_stride, out + row * g.out_stride, g.head_dim);
  }
}

template <class T, class G, class F = Compute<T>>
void probabilities_of(const GroupBackward<T, G>& g, const Tiles<F>& t, const Pair& pair) {
  const T* q = g.q + pair.head * g.head_dim + pair.query * g.q_stride;
  const T* dout = g.dout + pair.head * g.head_dim + pair.query * g.out_stride;
  const F* lse = g.lse + pair.head * g.seq + pair.query;
  F delta[kQueries];
  deltas_of(delta, g, pair);
  pack_panels(t.queries, q, g.q_stride, pair.rows, g.head_dim, kQueries, F{1});
  pack_panels(t.douts, dout, g.out_stride, pair.rows, g.head_dim, kQueries, F{1});
  for (int64_t column = 0; column < kKeys; column += kPanel<F>)
    for (int64_t s = 0; s < pair.strips(); ++s) {
      const Columns seen = pair.seen(g.visible, s);
      if (column + kPanel<F> <= seen.begin || column >= seen.end) continue;
      const int64_t at = s * kStrip * kKeys + column, left = s * kStrip * kPanel<F>;
      t.kernels.panels(t.p + at, kKeys, t.queries + left, kQueries * kPanel<F>,
                       t.keys_across + column * g.head_dim, g.head_dim, nullptr);
      t.kernels.panels(t.ds + at, kKeys, t.douts + left, kQueries * kPanel<F>,
                       t.values_across + column * g.head_dim, g.head_dim, nullptr);
    }
  for (int64_t row = 0; row < pair.rows; ++row) {
    const int64_t query = pair.query + row;
    Columns seen = g.visible.keys(query, query, pair.tile);
    if (seen.is_empty()) seen = {0, 0};
    const Columns panels = seen.is_empty() ? seen : to_panels<F>(seen);
    F *p = t.p + row * kKeys, *ds = t.ds + row * kKeys;
    t.kernels.probabilities(p, ds, panels.begin, panels.end,
                            lse[row] * static_cast<F>(std::numbers::log2e), delta[row]);
    for (F* unseen : {p, ds}) {
      std::fill(unseen, unseen + seen.begin, F{0});
      std::fill(unseen + seen.end, unseen + kKeys, F{0});
    }
  }
}

// dk and dv of every strip of keys: the sums go on over the queries that see any key of the strip.
template <class T, class G, class F = Compute<T>>
void add_keys_values(const GroupBackward<T, G>& g, const Tiles<F>& t, const Pair& pair) {
  const int64_t width = whole_panels<F>(g.head_dim), count = std::min(kKeys, g.kv_seq - pair.tile);
  Columns queries[kKeys / kStrip];  // rows of the pair, for each strip of keys
  int64_t begin = 0, end = 0;
  for (int64_t key = 0; key < count; key += kStrip) {
    while (begin < pair.rows && g.visible.end(pair.query + begin) <= pair.tile + key) ++begin;
    while (end < pair.rows && g.visible.begin(pair.query + end) < pair.tile + key + kStrip) ++end;
    queries[key / kStrip] = {begin, end};
  }
  for (int64_t column = 0; column < width; column += kPanel<F>)
    for (int64_t key = 0; key < count; key += kStrip) {
      const Columns rows = queries[key / kStrip];
      if (rows.is_empty()) continue;
      const int64_t k = rows.end - rows.begin, left = rows.begin * kKeys + key;
      const int64_t right = column * kQueries + rows.begin * kPanel<F>;
      t.kernels.columns_onto_sum(t.dv + key * width + column, width, t.p + left, kKeys,
                                 t.douts + right, k, nullptr);
      t.kernels.columns_onto_sum(t.dk + key * width + column, width, t.ds + left, kKeys,
                                 t.queries + right, k, nullptr);
    }
}

// dq of rows [query, query + rows) of a head, between memory and the sums at `sums`.
template <class T, class G, class F = Compute<T>>
void read_queries(F* sums, const GroupBackward<T, G>& g, int64_t head, int64_t query,
                  int64_t rows) {
  const int64_t width = whole_panels<F>(g.head_dim);
  const G* dq = g.dq + head * g.head_dim + query * g.q_stride;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < g.head_dim; ++i)
      sums[row * width + i] = value_of(dq[row * g.q_stride + i]);
}
template <class T, class G, class F = Compute<T>>
void write_queries(const F* sums, const GroupBackward<T, G>& g, int64_t head, int64_t query,
                   int64_t rows) {
  const int64_t width = whole_panels<F>(g.head_dim);
  G* dq = g.dq + head * g.head_dim + query * g.q_stride;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < g.head_dim; ++i)
      dq[row * g.q_stride + i] = element_of<G>(sums[row * width + i]);
}

// What a tile of keys adds to the gradients of the pair's queries, whose sums lie at `sums`.
template <class T, class G, class F = Compute<T>>
void add_queries(F* sums, const GroupBackward<T, G>& g, const Tiles<F>& t, const Pair& pair) {
  const int64_t width = whole_panels<F>(g.head_dim);
  for (int64_t column = 0; column < width; column += kPanel<F>)
    for (int64_t s = 0; s < pair.strips(); ++s) {
      const Columns seen = pair.seen(g.visible, s);
      if (seen.is_empty()) continue;
      t.kernels.rows_onto_sum(
          sums + s * kStrip * width + column, width, t.ds + s * kStrip * kKeys + seen.begin, kKeys,
          t.keys + column * kKeys + seen.begin * kPanel<F>, seen.end - seen.begin, nullptr);
    }
}

// The same to dq in memory, which the first tile of these queries replaces.
template <class T, class G, class F = Compute<T>>
void add_queries_in_memory(const GroupBackward<T, G>& g, const Tiles<F>& t, const Pair& pair) {
  if (g.write_dq == Write::Replace && pair.tile <= g.visible.begin(pair.query))
    std::fill_n(t.dq, pair.strips() * kStrip * whole_panels<F>(g.head_dim), F{0});
  else
    read_queries(t.dq, g, pair.head, pair.query, pair.rows);
  add_queries(t.dq, g, t, pair);
  write_queries(t.dq, g, pair.head, pair.query, pair.rows);
}

template <class T, class G, class F = Compute<T>>
void write_keys_values(const GroupBackward<T, G>& g, const Tiles<F>& t, int64_t tile) {
  const int64_t width = whole_panels<F>(g.head_dim);
  const F scale = static_cast<F>(1 / std::sqrt(static_cast<double>(g.head_dim)));
  for (int64_t row = 0; row < std::min(kKeys, g.kv_seq - tile); ++row) {
    F *dk = t.dk + row * width, *dv = t.dv + row * width;
    G *to_k = g.dk + (tile + row) * g.kv_stride, *to_v = g.dv + (tile + row) * g.kv_stride;
    for (int64_t i = 0; i < g.head_dim; ++i) dk[i] *= scale;
    if (g.write_dkv == Write::Add) {
      add_row(to_k, dk, g.head_dim);
      add_row(to_v, dv, g.head_dim);
    } else {
      for_packs<F>(0, g.head_dim, [&](auto at) { at.put(to_k, at(dk)); });
      for_packs<F>(0, g.head_dim, [&](auto at) { at.put(to_v, at(dv)); });
    }
  }
}

}  // namespace

template <class T, class G>
void clear_idle_queries(const GroupBackward<T, G>& g, int64_t head, int64_t begin, int64_t end) {
  if (g.write_dq != Write::Replace) return;
  for (int64_t query = begin; query < end; query += kQueries) {
    const int64_t last = std::min(query + kQueries, end) - 1;
    if (!g.visible.keys(query, last).is_empty()) continue;
    for (int64_t i = query; i <= last; ++i)
      std::fill_n(g.dq + head * g.head_dim + i * g.q_stride, g.head_dim, G{0});
  }
}

template <class T, class G>
void tile_of_keys_backward(const GroupBackward<T, G>& g, int64_t tile, Gradients gradients,
                           std::span<std::byte> scratch) {
  using F = Compute<T>;
  const Tiles<F> t(scratch, g.head_dim);
  const int64_t width = whole_panels<F>(g.head_dim);
  pack_keys(g, t, tile);
  std::fill_n(t.dk, kKeys * width, F{0});
  std::fill_n(t.dv, kKeys * width, F{0});
  for (int64_t head = 0; head < g.group; ++head)
    for (int64_t query = g.visible.first_query(tile, g.seq) / kQueries * kQueries; query < g.seq;
         query += kQueries) {
      if (g.visible.begin(query) >= tile + kKeys) break;  // from here on, later documents
      const Pair pair{head, query, std::min(kQueries, g.seq - query), tile};
      if (g.visible.keys(query, query + pair.rows - 1, tile).is_empty()) continue;
      probabilities_of(g, t, pair);
      add_keys_values(g, t, pair);
      if (gradients == Gradients::Both) add_queries_in_memory(g, t, pair);
    }
  write_keys_values(g, t, tile);
}

template <class T, class G>
void queries_backward(const GroupBackward<T, G>& g, int64_t head, int64_t begin, int64_t end,
                      std::span<std::byte> scratch) {
  using F = Compute<T>;
  const Tiles<F> t(scratch, g.head_dim);
  const int64_t width = whole_panels<F>(g.head_dim);
  const Columns seen = g.visible.keys(begin, end - 1);
  if (seen.is_empty()) return;
  if (g.write_dq == Write::Replace)
    std::fill_n(t.dq, (end - begin + kStrip - 1) / kStrip * kStrip * width, F{0});
  else
    read_queries(t.dq, g, head, begin, end - begin);
  for (int64_t tile = seen.begin / kKeys * kKeys; tile < seen.end; tile += kKeys) {
    bool packed = false;
    for (int64_t query = begin; query < end; query += kQueries) {
      const Pair pair{head, query, std::min(kQueries, end - query), tile};
      if (g.visible.keys(query, query + pair.rows - 1, tile).is_empty()) continue;
      if (!std::exchange(packed, true)) pack_keys(g, t, tile);
      probabilities_of(g, t, pair);
      add_queries(t.dq + (query - begin) * width, g, t, pair);
    }
  }
  write_queries(t.dq, g, head, begin, end - begin);
}

template void clear_idle_queries(const GroupBackward<float>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<float>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<float>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);
template void clear_idle_queries(const GroupBackward<double>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<double>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<double>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);
template void clear_idle_queries(const GroupBackward<bf16>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<bf16>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<bf16>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);
template void clear_idle_queries(const GroupBackward<f16>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<f16>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<f16>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);
template void clear_idle_queries(const GroupBackward<bf16, float>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<bf16, float>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<bf16, float>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);
template void clear_idle_queries(const GroupBackward<f16, float>&, int64_t, int64_t, int64_t);
template void tile_of_keys_backward(const GroupBackward<f16, float>&, int64_t, Gradients,
                                    std::span<std::byte>);
template void queries_backward(const GroupBackward<f16, float>&, int64_t, int64_t, int64_t,
                               std::span<std::byte>);

}  // namespace sextant::cpu

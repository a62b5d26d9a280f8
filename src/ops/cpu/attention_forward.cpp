// The trick: scores of a tile of queries and a tile of keys stay in cache; a running maximum and
// sum for each query let tiles be added one after the other. Scores are in units of log 2: the
// scale and log2(e) are multiplied into the keys while they are packed.
#include "ops/cpu/attention_forward.h"

#include <numbers>
#include <utility>

#include "ops/cpu/attention_pack.h"

namespace sextant::cpu {
namespace {

constexpr double kNoScore = -1e30;  // finite, so that differences of two of them are not NaN

// State of the queries of one call.
template <class T>
struct Running {
  const AttentionKernels<T>& kernels = best_attention_kernels<T>();
  int64_t rows;  // whole strips
  T* queries;    // panels of `rows` rows
  T* keys;       // panels of the transposed tile
  T* values;     // panels of the tile
  T* scores;     // [kQueries, kKeys]
  T* sums;       // [rows, whole_panels(head_dim)], sum of probability times value
  T* most;       // [rows], largest score so far
  T* total;      // [rows], sum of probabilities

  Running(std::span<std::byte> scratch, int64_t count, int64_t head_dim) {
    Carver carver(scratch);
    const int64_t width = whole_panels<T>(head_dim);
    rows = (count + kStrip - 1) / kStrip * kStrip;
    queries = carver.take<T>(rows * width);
    keys = carver.take<T>(kKeys * head_dim);
    values = carver.take<T>(kKeys * width);
    scores = carver.take<T>(kQueries * kKeys);
    sums = carver.take<T>(rows * width);
    most = carver.take<T>(rows);
    total = carver.take<T>(rows);
    std::fill_n(sums, rows * width, T{0});
    std::fill_n(most, rows, static_cast<T>(kNoScore));
    std::fill_n(total, rows, T{0});
  }
};

// Scores outside of what the query sees become minus infinity.
template <class T>
void hide(T* scores, Columns panels, Columns seen) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  const int64_t begin = std::clamp(seen.begin, panels.begin, panels.end);
  const int64_t end = std::clamp(seen.end, begin, panels.end);
  std::fill(scores + panels.begin, scores + begin, kHidden);
  std::fill(scores + end, scores + panels.end, kHidden);
}

// One strip of queries and the keys of one tile that it sees, its scores already there.
template <class T>
void softmax_strip(const AttentionKernels<T>& kernels, T* scores, T* most, T* total, T* rescale,
                   const Visible& visible, int64_t query, int64_t rows, int64_t tile,
                   Columns panels) {
  T before[kStrip];
  for (int64_t r = 0; r < rows; ++r) {
    hide(scores + r * kKeys, panels, visible.keys(query + r, query + r, tile));
    before[r] = most[r];
    most[r] = std::max(most[r], kernels.largest(scores + r * kKeys, panels.begin, panels.end));
  }
  using V = VectorOf<T>;
  for (int64_t r = 0; r < rows; ++r) {
    rescale[r] = vexp2((before[r] - most[r]) - V{})[0];
    const T sum = kernels.exponentiate(scores + r * kKeys, panels.begin, panels.end, most[r]);
    total[r] = total[r] * rescale[r] + sum;
  }
}

// A tile of queries [query, query + rows), rows at `row` of the state, and a tile of keys.
template <class T>
void add_tile(const Visible& visible, int64_t head_dim, Running<T>& state, int64_t query,
              int64_t rows, int64_t row, int64_t tile) {
  const int64_t width = whole_panels<T>(head_dim);
  const int64_t strips = (rows + kStrip - 1) / kStrip;
  const auto strip_rows = [&](int64_t strip) { return std::min(kStrip, rows - strip * kStrip); };
  Columns seen[kQueries / kStrip], panels[kQueries / kStrip];
  T rescale[kQueries] = {};
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t first = query + s * kStrip;
    seen[s] = visible.keys(first, first + strip_rows(s) - 1, tile);
    if (!seen[s].is_empty()) panels[s] = to_panels<T>(seen[s]);
  }
  for (int64_t column = 0; column < kKeys; column += kPanel<T>)
    for (int64_t s = 0; s < strips; ++s)
      if (column >= panels[s].begin && column < panels[s].end)
        state.kernels.panels(state.scores + s * kStrip * kKeys + column, kKeys,
                             state.queries + (row + s * kStrip) * kPanel<T>, state.rows * kPanel<T>,
                             state.keys + column * head_dim, head_dim, nullptr);
  for (int64_t s = 0; s < strips; ++s)
    if (!seen[s].is_empty())
      softmax_strip(state.kernels, state.scores + s * kStrip * kKeys, state.most + row + s * kStrip,
                    state.total + row + s * kStrip, rescale + s * kStrip, visible,
                    query + s * kStrip, strip_rows(s), tile, panels[s]);
  for (int64_t column = 0; column < width; column += kPanel<T>)
    for (int64_t s = 0; s < strips; ++s)
      if (!seen[s].is_empty())
        state.kernels.rows_onto_scaled_sum(
            state.sums + (row + s * kStrip) * width + column, width,
            state.scores + s * kStrip * kKeys + seen[s].begin, kKeys,
            state.values + column * kKeys + seen[s].begin * kPanel<T>, seen[s].end - seen[s].begin,
            rescale + s * kStrip);
}

template <class T, class O, class F = Compute<T>>
void pack_keys(const HeadForward<T, O>& head, const Running<F>& state, int64_t tile, int64_t count,
               F scale) {
  pack_transposed(state.keys, head.k + tile * head.kv_stride, head.kv_stride, count, head.head_dim,
                  scale);
  pack_panels(state.values, head.v + tile * head.kv_stride, head.kv_stride, count, head.head_dim,
              kKeys, F{1});
}

template <class T, class O, class F = Compute<T>>
void finish(const HeadForward<T, O>& head, const Running<F>& state, int64_t begin, int64_t end) {
  const int64_t width = whole_panels<F>(head.head_dim);
  for (int64_t query = begin; query < end; ++query) {
    const int64_t row = query - begin;
    const F inverse = state.total[row] == 0 ? F{0} : 1 / state.total[row];  // 0: saw no key
    O* out = head.out + query * head.out_stride;
    for (int64_t i = 0; i < head.head_dim; ++i)
      out[i] = element_of<O>(state.sums[row * width + i] * inverse);
    if (head.lse != nullptr)
      head.lse[query] =
          (state.most[row] + std::log2(state.total[row])) * static_cast<F>(std::numbers::ln2);
  }
}

}  // namespace

template <class T, class O>
void attend(const HeadForward<T, O>& head, int64_t begin, int64_t end,
            std::span<std::byte> scratch) {
  using F = Compute<T>;
  Running<F> state(scratch, end - begin, head.head_dim);
  const F scale =
      static_cast<F>(std::numbers::log2e / std::sqrt(static_cast<double>(head.head_dim)));
  pack_panels(state.queries, head.q + begin * head.q_stride, head.q_stride, end - begin,
              head.head_dim, state.rows, F{1});
  const Columns seen = head.visible.keys(begin, end - 1);
  for (int64_t tile = seen.begin / kKeys * kKeys; tile < seen.end; tile += kKeys) {
    const int64_t count = std::min(kKeys, seen.end - tile);
    bool packed = false;  // a tile between the keys of two documents may have no query
    for (int64_t query = begin; query < end; query += kQueries) {
      const int64_t rows = std::min(kQueries, end - query);
      if (head.visible.keys(query, query + rows - 1, tile).is_empty()) continue;
      if (!std::exchange(packed, true)) pack_keys(head, state, tile, count, scale);
      add_tile(head.visible, head.head_dim, state, query, rows, query - begin, tile);
    }
  }
  finish(head, state, begin, end);
}

template void attend(const HeadForward<float>&, int64_t, int64_t, std::span<std::byte>);
template void attend(const HeadForward<double>&, int64_t, int64_t, std::span<std::byte>);
template void attend(const HeadForward<bf16>&, int64_t, int64_t, std::span<std::byte>);
template void attend(const HeadForward<f16>&, int64_t, int64_t, std::span<std::byte>);
template void attend(const HeadForward<bf16, float>&, int64_t, int64_t, std::span<std::byte>);
template void attend(const HeadForward<f16, float>&, int64_t, int64_t, std::span<std::byte>);

}  // namespace sextant::cpu

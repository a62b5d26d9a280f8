#include <numbers>

#include "ops/attention.h"
#include "ops/cpu/attention_pieces.h"

namespace sextant::cpu {
namespace {

// Keys and values of the new tokens, behind those already in the cache.
template <class T>
void append(Stream& stream, Tensor& keys, Tensor& values, const Tensor& qkv, int64_t past,
            const Heads& heads) {
  const int64_t dim = heads.head_dim, capacity = keys.dim(2);
  stream.team().for_pieces(heads.batch * heads.kv_heads, 1, [&](int64_t i, int64_t, int) {
    const int64_t row = i / heads.kv_heads, kv_head = i % heads.kv_heads;
    const T* key = qkv.data<T>() + row * heads.seq * heads.qkv_width() +
                   (kv_head * (heads.group() + 2) + heads.group()) * dim;
    const int64_t to = (i * capacity + past) * dim;
    for (int64_t token = 0; token < heads.seq; ++token) {
      const T* from = key + token * heads.qkv_width();
      std::copy_n(from, dim, keys.data<T>() + to + token * dim);
      std::copy_n(from + dim, dim, values.data<T>() + to + token * dim);
    }
  });
}

// sums = sums * rescale + weights * values, for a head of one token.
template <class T, class F = Compute<T>>
void add_values(F* sums, F rescale, const F* weights, const T* values, int64_t count, int64_t dim) {
  using V = VectorOf<T>;
  int64_t column = 0;
  for (; column + 4 * kLanes<V> <= dim; column += 4 * kLanes<V>) {
    F* s = sums + column;
    V s0 = load<V>(s) * rescale, s1 = load<V>(s + kLanes<V>) * rescale;
    V s2 = load<V>(s + 2 * kLanes<V>) * rescale, s3 = load<V>(s + 3 * kLanes<V>) * rescale;
    for (int64_t key = 0; key < count; ++key) {
      const T* v = values + key * dim + column;
      const V weight = weights[key] - V{};
      s0 = fma(weight, load<V>(v), s0);
      s1 = fma(weight, load<V>(v + kLanes<V>), s1);
      s2 = fma(weight, load<V>(v + 2 * kLanes<V>), s2);
      s3 = fma(weight, load<V>(v + 3 * kLanes<V>), s3);
    }
    store<V>(s, s0);
    store<V>(s + kLanes<V>, s1);
    store<V>(s + 2 * kLanes<V>, s2);
    store<V>(s + 3 * kLanes<V>, s3);
  }
  for (; column < dim; ++column) {
    F sum = sums[column] * rescale;
    for (int64_t key = 0; key < count; ++key)
      sum = std::fma(weights[key], value_of(values[key * dim + column]), sum);
    sums[column] = sum;
  }
}

// One new token: all query heads of a key-value head go over its keys and values together, which
// are read once.
template <class T, class F = Compute<T>>
void attend_one(T* out, const T* q, const T* keys, const T* values, int64_t count, int64_t group,
                int64_t dim, std::span<std::byte> scratch) {
  Carver carver(scratch);
  F* weights = carver.take<F>(kKeys);
  F* most = carver.take<F>(group);
  F* total = carver.take<F>(group);
  F* sums = nullptr;
  if constexpr (kIsNarrow<T>)
    sums = carver.take<F>(group * dim);
  else
    sums = out;
  std::fill_n(most, group, static_cast<F>(-1e30));
  std::fill_n(total, group, F{0});
  std::fill_n(sums, group * dim, F{0});
  using V = VectorOf<T>;
  const F scale = static_cast<F>(std::numbers::log2e / std::sqrt(static_cast<double>(dim)));
  for (int64_t tile = 0; tile < count; tile += kKeys)
    for (int64_t head = 0; head < group; ++head) {
      const int64_t some = std::min(kKeys, count - tile);
      F largest = most[head];
      for (int64_t key = 0; key < some; ++key) {
        weights[key] = dot(q + head * dim, keys + (tile + key) * dim, dim) * scale;
        largest = std::max(largest, weights[key]);
      }
      const F rescale = vexp2((most[head] - largest) - V{})[0];
      V sum{};
      for (int64_t key = 0; key < some; key += kLanes<V>) {
        const int64_t left = some - key;
        V weight = vexp2(load_some<V>(weights + key, left) - largest);
        for (int64_t lane = left; lane < kLanes<V>; ++lane) weight[lane] = 0;
        store<V>(weights + key, weight);
        sum += weight;
      }
      most[head] = largest;
      total[head] = total[head] * rescale + sum_lanes<F>(sum);
      add_values(sums + head * dim, rescale, weights, values + tile * dim, some, dim);
    }
  for (int64_t head = 0; head < group; ++head)
    for (int64_t i = 0; i < dim; ++i)
      out[head * dim + i] = element_of<T>(sums[head * dim + i] / total[head]);
}

template <class T>
void attend_new(Stream& stream, Tensor& out, const Tensor& keys, const Tensor& values,
                const Tensor& qkv, int64_t past, const Heads& heads) {
  const int64_t cached = keys.dim(2) * heads.head_dim;  // elements of one head's cache
  if (heads.seq == 1) {
    stream.team().for_pieces(heads.batch * heads.kv_heads, 1, [&](int64_t i, int64_t, int thread) {
      const int64_t head = i % heads.kv_heads * heads.group();
      const HeadForward<T> h = head_of<T>(out, qkv, heads, i / heads.kv_heads, head);
      const int64_t count = heads.in_window(past + 1);
      const int64_t first = i * cached + (past + 1 - count) * heads.head_dim;
      attend_one(h.out, h.q, keys.data<T>() + first, values.data<T>() + first, count, heads.group(),
                 heads.head_dim, stream.thread_scratch(thread));
    });
    return;
  }
  for_queries(stream, heads, queries_per_piece(heads, stream.threads()),
              [&](int64_t row, int64_t head, int64_t begin, int64_t end, int thread) {
                const int64_t kv = row * heads.kv_heads + head / heads.group();
                HeadForward<T> h = head_of<T>(out, qkv, heads, row, head);
                h.k = keys.data<T>() + kv * cached;
                h.v = values.data<T>() + kv * cached;
                h.kv_stride = heads.head_dim;
                h.visible.past = past;
                h.visible.window = heads.window;
                attend(h, begin, end, stream.thread_scratch(thread));
              });
}

}  // namespace

void attention_cached(Stream& stream, Tensor& out, Tensor& keys, Tensor& values, const Tensor& qkv,
                      int64_t past, const Heads& heads) {
  with_float(qkv.dtype(), [&]<class T>(T) {
    append<T>(stream, keys, values, qkv, past, heads);
    attend_new<T>(stream, out, keys, values, qkv, past, heads);
  });
}

}  // namespace sextant::cpu

#include "ops/cuda/attention_f32.h"

#include "ops/cuda/attention_f32.cuh"

namespace sextant::cuda {
namespace {

template <int kD>
__device__ void forward_tile(const ForwardArgs& args, const float scale, const Place& place) {
  using S = Square<kD>;
  constexpr int kEach = S::kEach;
  const AttentionSizes& sizes = args.sizes;
  const int query = (tiles_of(sizes.seq, S::kSide) - 1 - place.tile) * S::kSide;
  const int rows = min(S::kSide, sizes.seq - query);
  float* queries = reinterpret_cast<float*>(shared_memory());
  float *keys = queries + S::kTile, *values = keys + S::kTile, *weights = values + S::kTile;

  const int2* ranges = args.ranges + int64_t{place.batch_row} * sizes.seq + query;
  const Span block(ranges, rows);
  int2 seen[kEach];
  float sums[kEach][S::kColumns], most[kEach], total[kEach];
  clear_f32(sums);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = thread_y() * kEach + i;
    seen[i] = row < rows ? ranges[row] : int2{0, 0};
    most[i] = -INFINITY;
    total[i] = 0;
  }
  const RowLayout &q = args.q_layout, &kv = args.kv_layout;
  if (block.begin < block.end)
    load_tile<kD>(queries, args.q, q.at(place.batch_row, place.group, place.head) + query * q.row,
                  q.row, rows, sizes.head_dim);
  for (int key = block.begin / S::kSide * S::kSide; key < block.end; key += S::kSide) {
    const int64_t at = kv.at(place.batch_row, place.group, 0) + key * kv.row;
    const int count = min(S::kSide, sizes.kv_seq - key);
    load_tile<kD>(keys, args.k, at, kv.row, count, sizes.head_dim);
    load_tile<kD>(values, args.v, at, kv.row, count, sizes.head_dim);
    finish_loads();
    float scores[kEach][kEach];
    multiply_rows_f32<kD>(scores, queries, keys, sizes.head_dim);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        if (!sees(seen[i], key + thread_x() + 16 * j)) scores[i][j] = -INFINITY;
        largest = fmaxf(largest, scores[i][j]);
      }
#pragma unroll
      for (int lanes = 8; lanes > 0; lanes /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, lanes));
      const float now = fmaxf(most[i], largest * scale);
      const float base = now == -INFINITY ? 0 : now;  // no key seen yet
      const float rescale = exp2f(most[i] - base);
      most[i] = now;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        scores[i][j] = exp2f(fmaf(scores[i][j], scale, -base));
        sum += scores[i][j];
      }
      total[i] = total[i] * rescale + sum;
#pragma unroll
      for (int j = 0; j < S::kColumns; ++j) sums[i][j] *= rescale;
    }
    multiply_weights_f32<kD>(sums, weights, scores, values);
    __syncthreads();
  }
  float* out = static_cast<float*>(args.out.data) +
               args.out.layout.at(place.batch_row, place.group, place.head);
  const int64_t head =
      (int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + place.head;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int lanes = 8; lanes > 0; lanes /= 2)
      total[i] += __shfl_xor_sync(0xffffffffU, total[i], lanes);
    const int row = query + thread_y() * kEach + i;
    if (row >= sizes.seq) continue;
    const float inverse = total[i] == 0 ? 0 : 1 / total[i];
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j)
      if (thread_x() + 16 * j < sizes.head_dim)
        out[row * args.out.layout.row + thread_x() + 16 * j] = sums[i][j] * inverse;
    if (args.lse != nullptr && thread_x() == 0)
      args.lse[head * sizes.seq + row] =
          total[i] == 0 ? -INFINITY : (most[i] + log2f(total[i])) * kLn2;
  }
}

// As keys_kernel of attention_backward_keys.cu: keys are rows, queries columns.
template <int kD>
__device__ void keys_tile(const BackwardArgs& args, const Scale& scale, const Place& place) {
  using S = Square<kD>;
  constexpr int kEach = S::kEach;
  const AttentionSizes& sizes = args.sizes;
  const int key = place.tile * S::kSide, rows = min(S::kSide, sizes.kv_seq - key);
  float* keys = reinterpret_cast<float*>(shared_memory());
  float *values = keys + S::kTile, *queries = values + S::kTile, *dout = queries + S::kTile;
  float* weights = dout + S::kTile;

  const int2* ranges = args.ranges + int64_t{place.batch_row} * sizes.seq;
  const int first = first_index(sizes.seq, [&](int i) { return ranges[i].y > key; });
  const int last = first_index(sizes.seq, [&](int i) { return ranges[i].x >= key + rows; });
  const RowLayout &q = args.q_layout, &kv = args.kv_layout, &o = args.dout_layout;
  if (first < last) {
    const int64_t at = kv.at(place.batch_row, place.group, 0) + key * kv.row;
    load_tile<kD>(keys, args.k, at, kv.row, rows, sizes.head_dim);
    load_tile<kD>(values, args.v, at, kv.row, rows, sizes.head_dim);
  }
  float dk[kEach][S::kColumns], dv[kEach][S::kColumns];
  clear_f32(dk);
  clear_f32(dv);
  for (int head = 0; head < sizes.heads && first < last; ++head)
    for (int query = first / S::kSide * S::kSide; query < last; query += S::kSide) {
      const int count = min(S::kSide, sizes.seq - query);
      load_tile<kD>(queries, args.q, q.at(place.batch_row, place.group, head) + query * q.row,
                    q.row, count, sizes.head_dim);
      load_tile<kD>(dout, args.dout, o.at(place.batch_row, place.group, head) + query * o.row,
                    o.row, count, sizes.head_dim);
      finish_loads();
      float p[kEach][kEach], ds[kEach][kEach];
      multiply_rows_f32<kD>(p, keys, queries, sizes.head_dim);
      multiply_rows_f32<kD>(ds, values, dout, sizes.head_dim);
      const int64_t at =
          ((int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + head) *
              sizes.seq +
          query;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int column = thread_x() + 16 * j;
        const bool is_query = column < count;
        const int2 range = is_query ? ranges[query + column] : int2{0, 0};
        const float lse = is_query ? args.lse[at + column] * kLog2e : 0;
        const float delta = is_query ? args.delta[at + column] : 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float weight = exp2f(fmaf(p[i][j], scale.log2, -lse));
          p[i][j] = sees(range, key + thread_y() * kEach + i) ? weight : 0;
          ds[i][j] = p[i][j] * (ds[i][j] - delta) * scale.fraction;
        }
      }
      multiply_weights_f32<kD>(dv, weights, p, dout);
      multiply_weights_f32<kD>(dk, weights, ds, queries);
      __syncthreads();
    }
  const auto write = [&](const Result& result, const float(&sums)[kEach][S::kColumns],
                         float factor) {
    float* to =
        static_cast<float*>(result.data) + result.layout.at(place.batch_row, place.group, 0);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = thread_y() * kEach + i;
      if (row >= rows) continue;
#pragma unroll
      for (int j = 0; j < S::kColumns; ++j) {
        if (thread_x() + 16 * j >= sizes.head_dim) continue;
        float& at = to[(key + row) * result.layout.row + thread_x() + 16 * j];
        at = args.write_dkv == Write::Add ? at + sums[i][j] * factor : sums[i][j] * factor;
      }
    }
  };
  write(args.dk, dk, scale.unit);
  write(args.dv, dv, 1);
}

template <int kD>
__device__ void queries_tile(const BackwardArgs& args, const Scale& scale, const Place& place) {
  using S = Square<kD>;
  constexpr int kEach = S::kEach;
  const AttentionSizes& sizes = args.sizes;
  const int query = (tiles_of(sizes.seq, S::kSide) - 1 - place.tile) * S::kSide;
  const int rows = min(S::kSide, sizes.seq - query);
  float* queries = reinterpret_cast<float*>(shared_memory());
  float *dout = queries + S::kTile, *keys = dout + S::kTile, *values = keys + S::kTile;
  float* weights = values + S::kTile;

  const int2* ranges = args.ranges + int64_t{place.batch_row} * sizes.seq + query;
  const Span block(ranges, rows);
  if (block.begin >= block.end && args.write_dq == Write::Chain) return;  // adds nothing
  const int64_t head_at =
      ((int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + place.head) *
          sizes.seq +
      query;
  float* to = static_cast<float*>(args.dq.data) +
              args.dq.layout.at(place.batch_row, place.group, place.head) +
              query * args.dq.layout.row;
  int2 seen[kEach];
  float lse[kEach], delta[kEach], dq[kEach][S::kColumns];
  clear_f32(dq);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = thread_y() * kEach + i;
    const bool is_query = row < rows;
    seen[i] = is_query ? ranges[row] : int2{0, 0};
    lse[i] = is_query ? args.lse[head_at + row] * kLog2e : 0;
    delta[i] = is_query ? args.delta[head_at + row] : 0;
    if (!is_query || args.write_dq != Write::Chain) continue;
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j)
      if (thread_x() + 16 * j < sizes.head_dim)
        dq[i][j] = to[row * args.dq.layout.row + thread_x() + 16 * j] / scale.unit;
  }
  const RowLayout &q = args.q_layout, &kv = args.kv_layout, &o = args.dout_layout;
  if (block.begin < block.end) {
    load_tile<kD>(queries, args.q, q.at(place.batch_row, place.group, place.head) + query * q.row,
                  q.row, rows, sizes.head_dim);
    load_tile<kD>(dout, args.dout, o.at(place.batch_row, place.group, place.head) + query * o.row,
                  o.row, rows, sizes.head_dim);
  }
  for (int key = block.begin / S::kSide * S::kSide; key < block.end; key += S::kSide) {
    const int64_t at = kv.at(place.batch_row, place.group, 0) + key * kv.row;
    const int count = min(S::kSide, sizes.kv_seq - key);
    load_tile<kD>(keys, args.k, at, kv.row, count, sizes.head_dim);
    load_tile<kD>(values, args.v, at, kv.row, count, sizes.head_dim);
    finish_loads();
    float p[kEach][kEach], ds[kEach][kEach];
    multiply_rows_f32<kD>(p, queries, keys, sizes.head_dim);
    multiply_rows_f32<kD>(ds, dout, values, sizes.head_dim);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const float weight = exp2f(fmaf(p[i][j], scale.log2, -lse[i]));
        const float value = weight * (ds[i][j] - delta[i]) * scale.fraction;
        ds[i][j] = sees(seen[i], key + thread_x() + 16 * j) ? value : 0;
      }
    multiply_weights_f32<kD>(dq, weights, ds, keys);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = thread_y() * kEach + i;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < S::kColumns; ++j)
      if (thread_x() + 16 * j < sizes.head_dim)
        to[row * args.dq.layout.row + thread_x() + 16 * j] = dq[i][j] * scale.unit;
  }
}

template <int kD>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const ForwardArgs args, const float scale) {
  for_places(args.sizes, tiles_of(args.sizes.seq, Square<kD>::kSide), args.sizes.heads, args.done,
             [&](const Place& place) { forward_tile<kD>(args, scale, place); });
}

template <int kD>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const BackwardArgs args, const Scale scale) {
  for_places(args.sizes, tiles_of(args.sizes.kv_seq, Square<kD>::kSide), 1, args.done,
             [&](const Place& place) { keys_tile<kD>(args, scale, place); });
}

template <int kD>
__global__ void __launch_bounds__(kThreads)
    queries_kernel(const BackwardArgs args, const Scale scale) {
  for_places(args.sizes, tiles_of(args.sizes.seq, Square<kD>::kSide), args.sizes.heads, args.done,
             [&](const Place& place) { queries_tile<kD>(args, scale, place); });
}

// Fewer paddings than the tensor cores' kernels: 32, 64, 128, 256.
template <class F>
void with_power_of_two(int head_dim, F&& f) {
  with_padded_dim(head_dim, [&](auto padded) {
    constexpr int kD = padded.value == 96 ? 128 : padded.value == 192 ? 256 : padded.value;
    f(std::integral_constant<int, kD>{});
  });
}

template <int kD>
constexpr int bytes_of(int tiles) {
  return (tiles * Square<kD>::kTile + Square<kD>::kWeights) * static_cast<int>(sizeof(float));
}

}  // namespace

void attend_f32(Stream& stream, const ForwardArgs& args) {
  const AttentionSizes& sizes = args.sizes;
  with_power_of_two(sizes.head_dim, [&](auto padded) {
    constexpr int kD = padded.value;
    launch(stream, "attention", forward_kernel<kD>,
           blocks_for(sizes, tiles_of(sizes.seq, Square<kD>::kSide), sizes.heads, args.done),
           kThreads, bytes_of<kD>(3), args, Scale::of(sizes.head_dim).log2);
  });
}

void keys_backward_f32(Stream& stream, const BackwardArgs& args) {
  const AttentionSizes& sizes = args.sizes;
  with_power_of_two(sizes.head_dim, [&](auto padded) {
    constexpr int kD = padded.value;
    launch(stream, "attention_backward", keys_kernel<kD>,
           blocks_for(sizes, tiles_of(sizes.kv_seq, Square<kD>::kSide), 1, args.done), kThreads,
           bytes_of<kD>(4), args, Scale::of(sizes.head_dim));
  });
}

void queries_backward_f32(Stream& stream, const BackwardArgs& args) {
  const AttentionSizes& sizes = args.sizes;
  with_power_of_two(sizes.head_dim, [&](auto padded) {
    constexpr int kD = padded.value;
    launch(stream, "attention_backward", queries_kernel<kD>,
           blocks_for(sizes, tiles_of(sizes.seq, Square<kD>::kSide), sizes.heads, args.done),
           kThreads, bytes_of<kD>(4), args, Scale::of(sizes.head_dim));
  });
}

}  // namespace sextant::cuda

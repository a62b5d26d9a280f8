#pragma once
// What the attention kernels share. A tile in shared memory has rows of kD elements, head_dim
// padded with zeros, and 16 bytes between rows, so that eight rows in a column lie in different
// banks.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/cuda/attention_args.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {

template <class T, int kD>
inline constexpr int kPitch = kD + 16 / static_cast<int>(sizeof(T));

__host__ __device__ constexpr int tiles_of(int count, int tile) {
  return (count + tile - 1) / tile;
}

// A block's work: one tile of one head, or of one group where heads is 1.
struct Place {
  int tile, head, group, batch_row;
};

// Calls f(place) for the block's share of all places, except in rows of the batch that are done.
template <class F>
__device__ void for_places(const AttentionSizes& sizes, int tiles, int heads, const DoneRows& done,
                           F&& f) {
  if (done.has_all()) return;
  const int64_t count = int64_t{tiles} * heads * sizes.groups * sizes.batch;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    int rest = static_cast<int>(i);
    Place place;
    place.tile = rest % tiles;
    rest /= tiles;
    place.head = rest % heads;
    rest /= heads;
    place.group = rest % sizes.groups;
    place.batch_row = rest / sizes.groups;
    if (done.has(place.batch_row)) continue;
    f(place);
    __syncthreads();  // the next place uses the same shared memory
  }
}

// Blocks to launch: one for each place or, where most rows are expected to be done, few that look
// at many places each.
inline int64_t blocks_for(const AttentionSizes& sizes, int tiles, int heads, const DoneRows& done) {
  constexpr int64_t kFew = 528;  // four for each multiprocessor of an H200
  const int64_t count = int64_t{tiles} * heads * sizes.groups * sizes.batch;
  return done.lengths == nullptr ? count : std::min(count, kFew);
}

template <int kBytes, int kRows, int kD, int kThreads, class T>
__device__ void load_chunks(T* to, const T* from, int64_t stride, int rows, int dim) {
  constexpr int kElements = kBytes / static_cast<int>(sizeof(T)), kChunks = kD / kElements;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * kElements;
    const bool is_inside = row < rows && column < dim;
    copy_async<kBytes>(to + row * kPitch<T, kD> + column,
                       from + (is_inside ? row * stride + column : 0), is_inside);
  }
}

// Starts the copy of `rows` rows of `dim` elements into a tile of kRows; the rest becomes zeros.
// Rows of 16-byte multiples begin at multiples of 16 bytes, because all of their strides are
// multiples of head_dim; other rows begin at multiples of 4 bytes.
template <int kRows, int kD, int kThreads, class T>
__device__ void load_rows(T* to, const T* from, int64_t stride, int rows, int dim) {
  if (dim * sizeof(T) % 16 == 0)
    load_chunks<16, kRows, kD, kThreads>(to, from, stride, rows, dim);
  else
    load_chunks<4, kRows, kD, kThreads>(to, from, stride, rows, dim);
}

__device__ inline bool sees(int2 range, int key) {
  return range.x <= key && key < range.y;
}

// What consecutive queries see of keys: all of [first, last], none outside of [begin, end).
struct Span {
  int begin = 0, end = 0;   // keys that some query may see
  int first = 0, last = 0;  // keys [first, last) are seen by every query
  __device__ Span(const int2* ranges, int queries) {
    if (queries <= 0) return;
    begin = ranges[0].x;
    end = ranges[queries - 1].y;
    first = ranges[queries - 1].x;
    last = ranges[0].y;
  }
  __device__ bool is_outside(int key, int count) const {
    return key + count <= begin || key >= end;
  }
  __device__ bool is_inside(int key, int count) const {
    return key >= first && key + count <= last;
  }
};

// The first of `count` indices for which `is_true`, which stays true from there on; `count` if
// none. Called by whole warps, which try 32 places at a time.
template <class F>
__device__ int first_index(int count, F&& is_true) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int begin = 0, end = count;
  while (begin < end) {
    const int step = (end - begin + 31) / 32, probe = begin + lane * step;
    const unsigned votes = __ballot_sync(0xffffffffU, probe >= end || is_true(probe));
    const int found = votes == 0 ? 32 : __ffs(static_cast<int>(votes)) - 1;
    if (found == 0) return begin;
    end = min(end, begin + found * step);
    begin += (found - 1) * step + 1;
  }
  return begin;
}

// c[m][n] += a b^T for rows of two tiles: 16 * kM rows of a, 8 * kN rows of b.
template <int kD, class T, int kM, int kN>
__device__ void multiply_rows(float (&c)[kM][kN][4], const T* a, const T* b) {
  constexpr int kStride = kPitch<T, kD>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  a += lane % 16 * kStride + lane / 16 * 8;
  b += (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kD; k += 16) {
    uint32_t left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrices(left[m], a + m * 16 * kStride + k);
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t right[4];
      load_matrices(right, b + n * 8 * kStride + k);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<T>(c[m][n], left[m], right[0], right[1]);
        multiply_add<T>(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c += weights b, where the weights, rounded to T, are as multiply_rows leaves them and b has 8 *
// kN rows: the accumulators of two neighbouring 16 x 8 products are one 16 x 16 left matrix.
template <int kD, class T, int kM, int kN>
__device__ void multiply_weights(float (&c)[kM][kD / 8][4], const float (&weights)[kM][kN][4],
                                 const T* b) {
  constexpr int kStride = kPitch<T, kD>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  b += lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kN; k += 2) {
    uint32_t left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      left[m][0] = pack<T>(weights[m][k][0], weights[m][k][1]);
      left[m][1] = pack<T>(weights[m][k][2], weights[m][k][3]);
      left[m][2] = pack<T>(weights[m][k + 1][0], weights[m][k + 1][1]);
      left[m][3] = pack<T>(weights[m][k + 1][2], weights[m][k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; n += 2) {
      uint32_t right[4];
      load_transposed(right, b + k * 8 * kStride + n * 8);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<T>(c[m][n], left[m], right[0], right[1]);
        multiply_add<T>(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

template <int kM, int kN>
__device__ void clear(float (&c)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
}

// Two neighbouring elements of a result whose narrow type is T; `at` is even.
template <class T>
__device__ float2 load_pair(const Result& result, int64_t at) {
  if (std::is_same_v<T, float> || result.is_wide)
    return *reinterpret_cast<const float2*>(static_cast<const float*>(result.data) + at);
  if constexpr (!std::is_same_v<T, float>)
    return unpack<T>(
        *reinterpret_cast<const uint32_t*>(static_cast<const uint16_t*>(result.data) + at));
  return {};
}

template <class T>
__device__ void store_pair(const Result& result, int64_t at, float2 pair) {
  if (std::is_same_v<T, float> || result.is_wide) {
    *reinterpret_cast<float2*>(static_cast<float*>(result.data) + at) = pair;
    return;
  }
  if constexpr (!std::is_same_v<T, float>)
    *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(result.data) + at) =
        pack<T>(pair.x, pair.y);
}

// value, or value added to what is there.
template <class T>
__device__ void write_pair(const Result& result, int64_t at, float2 value, Write write) {
  if (write == Write::Add) {
    const float2 before = load_pair<T>(result, at);
    value = {before.x + value.x, before.y + value.y};
  }
  store_pair<T>(result, at, value);
}

// The factor of the scores, 1 / sqrt(head_dim). Of its use in gradients only `fraction`, between 1
// and 2, is multiplied into dS, so that dS loses no range when it is rounded; the sums are then in
// units of 1 / `unit`, a power of two, and go to and from memory without rounding.
struct Scale {
  float log2 = 0;      // scores in units of log 2
  float fraction = 0;  // the scale is fraction * unit
  float unit = 0;
  static Scale of(int head_dim) {
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
    int exponent = 0;
    const double fraction = 2 * std::frexp(scale, &exponent);
    return {static_cast<float>(scale * std::numbers::log2e), static_cast<float>(fraction),
            static_cast<float>(std::ldexp(1.0, exponent - 1))};
  }
};

inline constexpr float kLog2e = std::numbers::log2e_v<float>;
inline constexpr float kLn2 = std::numbers::ln2_v<float>;

// Calls f(std::integral_constant<int, kD>) with the padded head_dim.
template <class F>
void with_padded_dim(int head_dim, F&& f) {
  if (head_dim <= 32) return f(std::integral_constant<int, 32>{});
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 96) return f(std::integral_constant<int, 96>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  if (head_dim <= 192) return f(std::integral_constant<int, 192>{});
  return f(std::integral_constant<int, 256>{});
}

}  // namespace sextant::cuda

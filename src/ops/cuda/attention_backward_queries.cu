// Gradients of queries, in a pass of their own: dq is a sum over keys, and one block that goes over
// them in order needs no atomic additions. As in forward, accumulators become left matrices:
//   S = q k^T and dP = dout v^T   give   dS = P * (dP - delta),   dq += dS k
#include "ops/cuda/attention_f32.h"
#include "ops/cuda/attention_tile.cuh"

namespace sextant::cuda {
namespace {

template <class T, int kD>
struct Backward {
  static constexpr int kRows = 128, kKeys = kD <= 64 ? 64 : 32;
  static constexpr int kWarps = kD <= 128 ? 4 : 8, kThreads = 32 * kWarps;
  static constexpr int kStrips = kRows / 16 / kWarps;
  static constexpr int kTile = kKeys * kPitch<T, kD>;
  // Queries and dout; two stages of keys and values; lse and delta.
  static constexpr int kElements = 2 * kRows * kPitch<T, kD> + 4 * kTile;
  static constexpr int kBytes = kElements * static_cast<int>(sizeof(T)) + 8 * kRows;
};

template <class T, int kD>
__device__ void queries_tile(const BackwardArgs& args, const Scale& scale, const Place& place) {
  using Tile = Backward<T, kD>;
  constexpr int kM = Tile::kStrips, kN = Tile::kKeys / 8;
  const AttentionSizes& sizes = args.sizes;
  const int query = (tiles_of(sizes.seq, Tile::kRows) - 1 - place.tile) * Tile::kRows;
  const int rows = min(Tile::kRows, sizes.seq - query);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T* queries = reinterpret_cast<T*>(shared_memory());
  T* dout = queries + Tile::kRows * kPitch<T, kD>;
  T* stages = dout + Tile::kRows * kPitch<T, kD>;
  float* lse = reinterpret_cast<float*>(stages + 4 * Tile::kTile);
  float* delta = lse + Tile::kRows;

  const int64_t kv = args.kv_layout.at(place.batch_row, place.group, 0);
  const T *k = static_cast<const T*>(args.k) + kv, *v = static_cast<const T*>(args.v) + kv;
  const auto load_stage = [&](int tile) {
    const int key = tile * Tile::kKeys, keys = min(Tile::kKeys, sizes.kv_seq - key);
    T* stage = stages + tile % 2 * 2 * Tile::kTile;
    load_rows<Tile::kKeys, kD, Tile::kThreads>(stage, k + key * args.kv_layout.row,
                                               args.kv_layout.row, keys, sizes.head_dim);
    load_rows<Tile::kKeys, kD, Tile::kThreads>(stage + Tile::kTile, v + key * args.kv_layout.row,
                                               args.kv_layout.row, keys, sizes.head_dim);
  };

  const int2* ranges = args.ranges + int64_t{place.batch_row} * sizes.seq + query;
  const Span block(ranges, rows);
  if (block.begin >= block.end && args.write_dq == Write::Chain) return;  // adds nothing
  const int strip = warp * 16 * kM;
  const Span span(ranges + min(strip, rows), min(16 * kM, rows - strip));
  const int64_t head_at =
      ((int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + place.head) *
          sizes.seq +
      query;
  const int64_t dq_at =
      args.dq.layout.at(place.batch_row, place.group, place.head) + query * args.dq.layout.row;
  float dq[kM][kD / 8][4];
  clear(dq);
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = strip + m * 16 + half * 8 + lane / 4;
      if (row >= rows || args.write_dq != Write::Chain) continue;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        const int column = n * 8 + lane % 4 * 2;
        if (column >= sizes.head_dim) continue;
        const float2 before = load_pair<T>(args.dq, dq_at + row * args.dq.layout.row + column);
        dq[m][n][2 * half] = before.x / scale.unit;
        dq[m][n][2 * half + 1] = before.y / scale.unit;
      }
    }

  const int first = block.begin / Tile::kKeys, last = tiles_of(block.end, Tile::kKeys);
  if (block.begin < block.end) {
    load_rows<Tile::kRows, kD, Tile::kThreads>(
        queries,
        static_cast<const T*>(args.q) + args.q_layout.at(place.batch_row, place.group, place.head) +
            query * args.q_layout.row,
        args.q_layout.row, rows, sizes.head_dim);
    load_rows<Tile::kRows, kD, Tile::kThreads>(
        dout,
        static_cast<const T*>(args.dout) +
            args.dout_layout.at(place.batch_row, place.group, place.head) +
            query * args.dout_layout.row,
        args.dout_layout.row, rows, sizes.head_dim);
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kRows; i += Tile::kThreads) {
      const int from = i < rows ? i : 0;
      copy_async<4>(lse + i, args.lse + head_at + from, i < rows);
      copy_async<4>(delta + i, args.delta + head_at + from, i < rows);
    }
    load_stage(first);
    close_copies();
    for (int tile = first; tile < last; ++tile) {
      if (tile + 1 < last) load_stage(tile + 1);
      close_copies();
      wait_copies<1>();
      __syncthreads();
      const int key = tile * Tile::kKeys;
      if (!span.is_outside(key, Tile::kKeys)) {
        const bool is_inside = span.is_inside(key, Tile::kKeys);
        const T* stage = stages + tile % 2 * 2 * Tile::kTile;
        float p[kM][kN][4], ds[kM][kN][4];
        clear(p);
        multiply_rows<kD>(p, queries + strip * kPitch<T, kD>, stage);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = strip + m * 16 + half * 8 + lane / 4;
            const float own_lse = lse[row] * kLog2e;
            const int2 seen = is_inside || row >= rows ? int2{0, 0} : ranges[row];
#pragma unroll
            for (int n = 0; n < kN; ++n)
#pragma unroll
              for (int side = 0; side < 2; ++side) {
                float& value = p[m][n][2 * half + side];
                value = exp2_fast(fmaf(value, scale.log2, -own_lse));
                if (!is_inside && !sees(seen, key + n * 8 + lane % 4 * 2 + side)) value = 0;
              }
          }
        clear(ds);
        multiply_rows<kD>(ds, dout + strip * kPitch<T, kD>, stage + Tile::kTile);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float own_delta = delta[strip + m * 16 + half * 8 + lane / 4];
#pragma unroll
            for (int n = 0; n < kN; ++n)
#pragma unroll
              for (int i = 2 * half; i < 2 * half + 2; ++i)
                ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - own_delta) * scale.fraction;
          }
        multiply_weights<kD>(dq, ds, stage);
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = strip + m * 16 + half * 8 + lane / 4;
      if (row >= rows) continue;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        const int column = n * 8 + lane % 4 * 2;
        if (column < sizes.head_dim)
          store_pair<T>(args.dq, dq_at + row * args.dq.layout.row + column,
                        {dq[m][n][2 * half] * scale.unit, dq[m][n][2 * half + 1] * scale.unit});
      }
    }
}

template <class T, int kD>
__global__ void __launch_bounds__(Backward<T, kD>::kThreads)
    queries_kernel(const BackwardArgs args, const Scale scale) {
  for_places(args.sizes, tiles_of(args.sizes.seq, Backward<T, kD>::kRows), args.sizes.heads,
             args.done, [&](const Place& place) { queries_tile<T, kD>(args, scale, place); });
}

template <class T>
void backward(Stream& stream, const BackwardArgs& args) {
  const AttentionSizes& sizes = args.sizes;
  with_padded_dim(sizes.head_dim, [&](auto padded) {
    using Tile = Backward<T, padded.value>;
    const int64_t blocks =
        blocks_for(sizes, tiles_of(sizes.seq, Tile::kRows), sizes.heads, args.done);
    launch(stream, "attention_backward", queries_kernel<T, padded.value>, blocks, Tile::kThreads,
           Tile::kBytes, args, Scale::of(sizes.head_dim));
  });
}

}  // namespace

void queries_backward(Stream& stream, DType dtype, const BackwardArgs& args) {
  if (dtype == DType::F32) return queries_backward_f32(stream, args);
  if (dtype == DType::BF16) return backward<bf16>(stream, args);
  return backward<f16>(stream, args);
}

void attend_backward(Stream& stream, DType dtype, const BackwardArgs& args) {
  keys_backward(stream, dtype, args);
  queries_backward(stream, dtype, args);
}

}  // namespace sextant::cuda

// The trick: each warp keeps the scores of its queries and a tile of keys in registers, with a
// running maximum and sum for each query; as accumulators of one product they are already the left
// matrix of the next. The next tile of keys and values is copied to shared memory meanwhile.
#include "ops/cuda/attention_f32.h"
#include "ops/cuda/attention_tile.cuh"

namespace sextant::cuda {
namespace {

// Two strips of 16 queries for each warp halve the loads of keys; wide heads have registers for
// one.
template <class T, int kD>
struct Forward {
  static constexpr int kRows = 128, kKeys = 64;
  static constexpr int kWarps = kD <= 128 ? 4 : 8, kThreads = 32 * kWarps;
  static constexpr int kStrips = kRows / 16 / kWarps;
  static constexpr int kTile = kKeys * kPitch<T, kD>;
  static constexpr int kBytes = (kRows * kPitch<T, kD> + 4 * kTile) * static_cast<int>(sizeof(T));
};

// scores become probabilities relative to 2^most; what was summed before is rescaled.
template <int kN, int kColumns>
__device__ void softmax(float (&scores)[kN][4], float (&sums)[kColumns][4], float (&most)[2],
                        float (&total)[2], float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kN; ++n)
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    const float now = fmaxf(most[half], largest * scale);
    const float base = now == -INFINITY ? 0 : now;  // no key seen yet
    const float rescale = exp2_fast(most[half] - base);
    most[half] = now;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2_fast(fmaf(scores[n][i], scale, -base));
        sum += scores[n][i];
      }
    total[half] = total[half] * rescale + sum;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      sums[n][2 * half] *= rescale;
      sums[n][2 * half + 1] *= rescale;
    }
  }
}

// Writes 8 rows of a strip: those at lane / 4 below `row`.
template <class T, int kColumns>
__device__ void write_out(const ForwardArgs& args, const Place& place, int row, int half,
                          const float (&sums)[kColumns][4], float most, float total) {
  const AttentionSizes& sizes = args.sizes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  total += __shfl_xor_sync(0xffffffffU, total, 1);
  total += __shfl_xor_sync(0xffffffffU, total, 2);
  if (row >= sizes.seq) return;
  const float inverse = total == 0 ? 0 : 1 / total;
  const int64_t at =
      args.out.layout.at(place.batch_row, place.group, place.head) + row * args.out.layout.row;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int column = n * 8 + lane % 4 * 2;
    if (column < sizes.head_dim)
      store_pair<T>(args.out, at + column,
                    {sums[n][2 * half] * inverse, sums[n][2 * half + 1] * inverse});
  }
  if (args.lse != nullptr && lane % 4 == 0) {
    const int64_t head =
        (int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + place.head;
    args.lse[head * sizes.seq + row] = total == 0 ? -INFINITY : (most + log2f(total)) * kLn2;
  }
}

template <class T, int kD>
__device__ void forward_tile(const ForwardArgs& args, const float scale, const Place& place) {
  using Tile = Forward<T, kD>;
  constexpr int kM = Tile::kStrips, kN = Tile::kKeys / 8;
  const AttentionSizes& sizes = args.sizes;
  // Later queries often see more keys, so they come first.
  const int query = (tiles_of(sizes.seq, Tile::kRows) - 1 - place.tile) * Tile::kRows;
  const int rows = min(Tile::kRows, sizes.seq - query);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T* queries = reinterpret_cast<T*>(shared_memory());
  T* stages = queries + Tile::kRows * kPitch<T, kD>;  // twice a tile of keys, a tile of values

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
  const int strip = warp * 16 * kM;  // the warp's first row
  const Span span(ranges + min(strip, rows), min(16 * kM, rows - strip));
  float sums[kM][kD / 8][4], most[kM][2], total[kM][2];
  clear(sums);
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[m][half] = -INFINITY;
      total[m][half] = 0;
    }

  const int first = block.begin / Tile::kKeys, last = tiles_of(block.end, Tile::kKeys);
  if (block.begin < block.end) {
    load_rows<Tile::kRows, kD, Tile::kThreads>(
        queries,
        static_cast<const T*>(args.q) + args.q_layout.at(place.batch_row, place.group, place.head) +
            query * args.q_layout.row,
        args.q_layout.row, rows, sizes.head_dim);
    load_stage(first);
    close_copies();
    for (int tile = first; tile < last; ++tile) {
      if (tile + 1 < last) load_stage(tile + 1);
      close_copies();
      wait_copies<1>();
      __syncthreads();
      const int key = tile * Tile::kKeys;
      if (!span.is_outside(key, Tile::kKeys)) {
        const T* stage = stages + tile % 2 * 2 * Tile::kTile;
        float scores[kM][kN][4];
        clear(scores);
        multiply_rows<kD>(scores, queries + strip * kPitch<T, kD>, stage);
        if (!span.is_inside(key, Tile::kKeys)) {
#pragma unroll
          for (int m = 0; m < kM; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int row = strip + m * 16 + half * 8 + lane / 4;
              const int2 seen = row < rows ? ranges[row] : int2{0, 0};
#pragma unroll
              for (int n = 0; n < kN; ++n)
#pragma unroll
                for (int side = 0; side < 2; ++side)
                  if (!sees(seen, key + n * 8 + lane % 4 * 2 + side))
                    scores[m][n][2 * half + side] = -INFINITY;
            }
        }
#pragma unroll
        for (int m = 0; m < kM; ++m) softmax(scores[m], sums[m], most[m], total[m], scale);
        multiply_weights<kD>(sums, scores, stage + Tile::kTile);
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      write_out<T>(args, place, query + strip + m * 16 + half * 8 + lane / 4, half, sums[m],
                   most[m][half], total[m][half]);
}

template <class T, int kD>
__global__ void __launch_bounds__(Forward<T, kD>::kThreads)
    forward_kernel(const ForwardArgs args, const float scale) {
  for_places(args.sizes, tiles_of(args.sizes.seq, Forward<T, kD>::kRows), args.sizes.heads,
             args.done, [&](const Place& place) { forward_tile<T, kD>(args, scale, place); });
}

template <class T>
void forward(Stream& stream, const ForwardArgs& args) {
  const AttentionSizes& sizes = args.sizes;
  with_padded_dim(sizes.head_dim, [&](auto padded) {
    using Tile = Forward<T, padded.value>;
    const int64_t blocks =
        blocks_for(sizes, tiles_of(sizes.seq, Tile::kRows), sizes.heads, args.done);
    launch(stream, "attention", forward_kernel<T, padded.value>, blocks, Tile::kThreads,
           Tile::kBytes, args, Scale::of(sizes.head_dim).log2);
  });
}

}  // namespace

void attend(Stream& stream, DType dtype, const ForwardArgs& args) {
  if (dtype == DType::F32) return attend_f32(stream, args);
  if (dtype == DType::BF16) return forward<bf16>(stream, args);
  return forward<f16>(stream, args);
}

}  // namespace sextant::cuda

// Gradients of keys and values. The trick: with keys as rows, the accumulators of
//   S^T = k q^T and dP^T = v dout^T   become the left matrices of   dv += P^T dout, dk += dS^T q
// without leaving registers. A block goes over all queries of the group that see its keys, in
// order, so sums are the same in every run.
#include "ops/cuda/attention_f32.h"
#include "ops/cuda/attention_tile.cuh"

namespace sextant::cuda {
namespace {

// Which gradients a block computes. The accumulators of both do not fit the registers when heads
// are wide: then some blocks compute dk and others dv.
enum class Part { Both, Keys, Values };

template <class T, int kD>
struct Backward {
  static constexpr int kRows = 128;                                 // keys
  static constexpr int kColumns = kD == 96 || kD == 128 ? 64 : 32;  // queries of a tile
  static constexpr int kWarps = kD <= 64 ? 4 : 8, kThreads = 32 * kWarps;
  static constexpr int kStrips = kRows / 16 / kWarps;
  static constexpr int kTile = kColumns * kPitch<T, kD>;
  // Keys and values; two stages of queries and dout; two of ranges, lse and delta.
  static constexpr int kElements = 2 * kRows * kPitch<T, kD> + 4 * kTile;
  static constexpr int kBytes = kElements * static_cast<int>(sizeof(T)) + 2 * kColumns * 16;
};

// Of one stage.
template <int kColumns>
struct QueryValues {
  int2 ranges[kColumns];
  float lse[kColumns], delta[kColumns];
};

template <class T, int kM, int kN>
__device__ void write_rows(const Result& result, const Place& place, int row, int seq, int dim,
                           const float (&sums)[kM][kN][4], float factor, Write write) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = row + m * 16 + half * 8 + lane / 4;
      if (key >= seq) continue;
      const int64_t at =
          result.layout.at(place.batch_row, place.group, 0) + key * result.layout.row;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int column = n * 8 + lane % 4 * 2;
        if (column < dim)
          write_pair<T>(result, at + column,
                        {sums[m][n][2 * half] * factor, sums[m][n][2 * half + 1] * factor}, write);
      }
    }
}

template <class T, int kD, Part kPart>
__device__ void keys_tile(const BackwardArgs& args, const Scale& scale, const Place& place) {
  using Tile = Backward<T, kD>;
  using Values = QueryValues<Tile::kColumns>;
  constexpr int kM = Tile::kStrips, kN = Tile::kColumns / 8;
  constexpr bool kHasKeys = kPart != Part::Values, kHasValues = kPart != Part::Keys;
  const AttentionSizes& sizes = args.sizes;
  const int key = place.tile * Tile::kRows, rows = min(Tile::kRows, sizes.kv_seq - key);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T* keys = reinterpret_cast<T*>(shared_memory());
  T* values = keys + Tile::kRows * kPitch<T, kD>;
  T* stages = values + Tile::kRows * kPitch<T, kD>;
  Values* stage_values = reinterpret_cast<Values*>(stages + 4 * Tile::kTile);

  // Queries [first, last) may see these keys; a turn is a tile of them in one head.
  const int2* ranges = args.ranges + int64_t{place.batch_row} * sizes.seq;
  const int first = first_index(sizes.seq, [&](int i) { return ranges[i].y > key; });
  const int last = first_index(sizes.seq, [&](int i) { return ranges[i].x >= key + rows; });
  const int first_tile = first / Tile::kColumns;
  const int tiles = max(0, tiles_of(last, Tile::kColumns) - first_tile);
  const int turns = first < last ? sizes.heads * tiles : 0;
  const auto load_turn = [&](int turn) {
    const int head = turn / tiles, query = (first_tile + turn % tiles) * Tile::kColumns;
    const int count = min(Tile::kColumns, sizes.seq - query);
    T* stage = stages + turn % 2 * 2 * Tile::kTile;
    load_rows<Tile::kColumns, kD, Tile::kThreads>(
        stage,
        static_cast<const T*>(args.q) + args.q_layout.at(place.batch_row, place.group, head) +
            query * args.q_layout.row,
        args.q_layout.row, count, sizes.head_dim);
    load_rows<Tile::kColumns, kD, Tile::kThreads>(
        stage + Tile::kTile,
        static_cast<const T*>(args.dout) + args.dout_layout.at(place.batch_row, place.group, head) +
            query * args.dout_layout.row,
        args.dout_layout.row, count, sizes.head_dim);
    Values& to = stage_values[turn % 2];
    const int64_t at =
        ((int64_t{place.batch_row} * sizes.groups + place.group) * sizes.heads + head) * sizes.seq +
        query;
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kColumns; i += Tile::kThreads) {
      const int from = i < count ? i : 0;
      copy_async<8>(&to.ranges[i], ranges + query + from, i < count);
      copy_async<4>(&to.lse[i], args.lse + at + from, i < count);
      copy_async<4>(&to.delta[i], args.delta + at + from, i < count);
    }
  };

  float dk[kHasKeys ? kM : 1][kD / 8][4], dv[kHasValues ? kM : 1][kD / 8][4];
  clear(dk);
  clear(dv);
  const int strip = warp * 16 * kM, warp_key = key + strip;
  const int warp_keys = min(16 * kM, sizes.kv_seq - warp_key);
  if (turns > 0) {
    const int64_t kv =
        args.kv_layout.at(place.batch_row, place.group, 0) + key * args.kv_layout.row;
    load_rows<Tile::kRows, kD, Tile::kThreads>(keys, static_cast<const T*>(args.k) + kv,
                                               args.kv_layout.row, rows, sizes.head_dim);
    if (kHasKeys)
      load_rows<Tile::kRows, kD, Tile::kThreads>(values, static_cast<const T*>(args.v) + kv,
                                                 args.kv_layout.row, rows, sizes.head_dim);
    load_turn(0);
  }
  close_copies();
  for (int turn = 0; turn < turns; ++turn) {
    if (turn + 1 < turns) load_turn(turn + 1);
    close_copies();
    wait_copies<1>();
    __syncthreads();
    const T *queries = stages + turn % 2 * 2 * Tile::kTile, *dout = queries + Tile::kTile;
    const Values& at = stage_values[turn % 2];
    const int query = (first_tile + turn % tiles) * Tile::kColumns;
    const Span span(at.ranges, min(Tile::kColumns, sizes.seq - query));
    if (warp_keys > 0 && !span.is_outside(warp_key, warp_keys)) {
      const bool is_inside = span.is_inside(warp_key, warp_keys);
      float p[kM][kN][4];
      clear(p);
      multiply_rows<kD>(p, keys + strip * kPitch<T, kD>, queries);
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int column = n * 8 + lane % 4 * 2 + side;
          const float lse = at.lse[column] * kLog2e;
          const int2 range = at.ranges[column];
#pragma unroll
          for (int m = 0; m < kM; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float& value = p[m][n][2 * half + side];
              value = exp2_fast(fmaf(value, scale.log2, -lse));
              if (!is_inside && !sees(range, warp_key + m * 16 + half * 8 + lane / 4)) value = 0;
            }
        }
      if constexpr (kHasValues) multiply_weights<kD>(dv, p, dout);
      if constexpr (kHasKeys) {
        float ds[kM][kN][4];
        clear(ds);
        multiply_rows<kD>(ds, values + strip * kPitch<T, kD>, dout);
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const float delta = at.delta[n * 8 + lane % 4 * 2 + side];
#pragma unroll
            for (int m = 0; m < kM; ++m)
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                float& value = ds[m][n][2 * half + side];
                value = p[m][n][2 * half + side] * (value - delta) * scale.fraction;
              }
          }
        multiply_weights<kD>(dk, ds, queries);
      }
    }
    __syncthreads();
  }
  if constexpr (kHasKeys)
    write_rows<T>(args.dk, place, warp_key, sizes.kv_seq, sizes.head_dim, dk, scale.unit,
                  args.write_dkv);
  if constexpr (kHasValues)
    write_rows<T>(args.dv, place, warp_key, sizes.kv_seq, sizes.head_dim, dv, 1.0F, args.write_dkv);
}

template <class T, int kD, Part kPart>
__global__ void __launch_bounds__(Backward<T, kD>::kThreads)
    keys_kernel(const BackwardArgs args, const Scale scale) {
  for_places(args.sizes, tiles_of(args.sizes.kv_seq, Backward<T, kD>::kRows), 1, args.done,
             [&](const Place& place) { keys_tile<T, kD, kPart>(args, scale, place); });
}

template <class T, int kD, Part kPart>
void launch_part(Stream& stream, const BackwardArgs& args) {
  using Tile = Backward<T, kD>;
  const AttentionSizes& sizes = args.sizes;
  launch(stream, "attention_backward", keys_kernel<T, kD, kPart>,
         blocks_for(sizes, tiles_of(sizes.kv_seq, Tile::kRows), 1, args.done), Tile::kThreads,
         Tile::kBytes, args, Scale::of(sizes.head_dim));
}

template <class T>
void backward(Stream& stream, const BackwardArgs& args) {
  with_padded_dim(args.sizes.head_dim, [&](auto padded) {
    if constexpr (padded.value <= 128) {
      launch_part<T, padded.value, Part::Both>(stream, args);
    } else {
      launch_part<T, padded.value, Part::Keys>(stream, args);
      launch_part<T, padded.value, Part::Values>(stream, args);
    }
  });
}

}  // namespace

void keys_backward(Stream& stream, DType dtype, const BackwardArgs& args) {
  if (dtype == DType::F32) return keys_backward_f32(stream, args);
  if (dtype == DType::BF16) return backward<bf16>(stream, args);
  return backward<f16>(stream, args);
}

}  // namespace sextant::cuda

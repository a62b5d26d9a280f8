#pragma once
// Writes the sums that hopper::multiply_add leaves in the registers of a warpgroup. Four
// neighbouring lanes have two columns each of every eight; they exchange them until a lane has as
// many neighbours as it writes at once.
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/kernel.h"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {

// The part of a matrix from the first row of a thread's sums and the first column of the tile on. A
// multiple of 8 columns exist.
template <class G>
struct Window {
  G* data;
  int64_t stride;
  int rows, columns;  // that exist
};

// Replaces what was there; of 2 bytes, eight neighbours at once.
template <class T>
__device__ inline void replace_sums(const Window<T>& to, const float (&sums)[128]) {
  const int quarter = static_cast<int>(threadIdx.x) % 4;
  const bool is_odd = quarter % 2 != 0, is_upper = quarter >= 2;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int first = 0; first < hopper::kProductN / 8; first += 4) {
      uint32_t two[4], four[2][2], own[2], other[2];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        two[i] = pack<T>(sums[(first + i) * 4 + half * 2], sums[(first + i) * 4 + half * 2 + 1]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // odd lanes get the second of each two eights
        const uint32_t kept = is_odd ? two[2 * i + 1] : two[2 * i];
        const uint32_t sent = is_odd ? two[2 * i] : two[2 * i + 1];
        const uint32_t received = __shfl_xor_sync(0xffffffff, sent, 1);
        four[i][0] = is_odd ? received : kept;
        four[i][1] = is_odd ? kept : received;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // upper pairs of lanes get the second two eights
        own[i] = is_upper ? four[1][i] : four[0][i];
        other[i] = __shfl_xor_sync(0xffffffff, is_upper ? four[0][i] : four[1][i], 2);
      }
      const int column = (first + quarter) * 8;
      if (half * 8 < to.rows && column < to.columns)
        *reinterpret_cast<uint4*>(to.data + half * 8 * to.stride + column) =
            is_upper ? make_uint4(other[0], other[1], own[0], own[1])
                     : make_uint4(own[0], own[1], other[0], other[1]);
    }
}

// Four neighbours at once, which stay f32 until they are added to what was there.
template <class G>
__device__ inline void write_sums(const Window<G>& to, const float (&sums)[128], Write write) {
  constexpr int kAtOnce = 4;  // reads under way
  const int quarter = static_cast<int>(threadIdx.x) % 4;
  const bool is_odd = quarter % 2 != 0;
  const int own = quarter % 2 * 8 + quarter / 2 * 4;  // the first column of each 16
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int first = 0; first < hopper::kProductN / 8; first += 2 * kAtOnce) {
      G* const data = to.data + half * 8 * to.stride + first * 8 + own;
      const int columns = half * 8 < to.rows ? to.columns - first * 8 - own : 0;
      float before[kAtOnce][4] = {};
      if (write == Write::Add)
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (i * 16 < columns) load(before[i], data + i * 16);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float values[4];
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const float even = sums[(first + 2 * i) * 4 + half * 2 + side];
          const float odd = sums[(first + 2 * i + 1) * 4 + half * 2 + side];
          const float received = __shfl_xor_sync(0xffffffff, is_odd ? even : odd, 1);
          values[side] = before[i][side] + (is_odd ? received : even);
          values[2 + side] = before[i][2 + side] + (is_odd ? odd : received);
        }
        if (i * 16 < columns) store(data + i * 16, values);
      }
    }
}

}  // namespace sextant::cuda

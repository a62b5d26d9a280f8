#pragma once
// 128 x 128 bytes in shared memory, put in by rows and taken out by columns, 16 bytes at a time. A
// chunk of 16 bytes is turned around its row by the row's number over 16, so that the 32 lanes of a
// warp meet no bank twice when they take four bytes each of 8 x 16 rows.
#include <cstdint>

namespace sextant::cuda {

inline constexpr int kTileBytes = 128;  // rows and columns
inline constexpr int kTileChunks = kTileBytes / 16;

struct ByteTile {
  uint4 chunks[kTileBytes][kTileChunks];

  __device__ void put(int row, int chunk, uint4 bytes) {
    chunks[row][(chunk + row / 16) % kTileChunks] = bytes;
  }
  // The half of a chunk: 8 bytes from column 8 * eight on.
  __device__ void put_half(int row, int eight, uint2 bytes) {
    auto* halves = reinterpret_cast<uint2*>(&chunks[row][(eight / 2 + row / 16) % kTileChunks]);
    halves[eight % 2] = bytes;
  }
  // out[i]: bytes of column 4 * word + i in rows 16 * group ... + 15.
  __device__ void take(uint4 (&out)[4], int word, int group) const {
    uint32_t turned[4][4];  // [column][four rows]
#pragma unroll
    for (int four = 0; four < 4; ++four) {
      uint32_t rows[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * group + 4 * four + i;
        const auto* words = reinterpret_cast<const uint32_t*>(chunks[row]);
        rows[i] = words[(word + 4 * group) % (4 * kTileChunks)];
      }
      const uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140);
      const uint32_t low23 = __byte_perm(rows[2], rows[3], 0x5140);
      const uint32_t high01 = __byte_perm(rows[0], rows[1], 0x7362);
      const uint32_t high23 = __byte_perm(rows[2], rows[3], 0x7362);
      turned[0][four] = __byte_perm(low01, low23, 0x5410);
      turned[1][four] = __byte_perm(low01, low23, 0x7632);
      turned[2][four] = __byte_perm(high01, high23, 0x5410);
      turned[3][four] = __byte_perm(high01, high23, 0x7632);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = {turned[i][0], turned[i][1], turned[i][2], turned[i][3]};
  }
};

}  // namespace sextant::cuda

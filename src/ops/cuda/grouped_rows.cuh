#pragma once
// What the kernels of grouped products share: the rows of each expert, from the offsets in device
// memory, and the expert of a tile.
#include "ops/cuda/bad_rows.h"
#include "ops/fault_texts.h"

namespace sextant::cuda {

struct Rows {
  int64_t begin, end;
};

// Rows of experts. Offsets that do not ascend or exceed the rows are clamped and reported.
struct Groups {
  const int32_t* offsets;
  int experts;
  int64_t rows;
  Report report;

  Groups(Stream& stream, const char* op, const Tensor& all, int64_t row_count)
      : offsets(all.data<int32_t>()),
        experts(static_cast<int>(all.dim(0)) - 1),
        rows(row_count),
        report(stream, Fault::Internal, op, kBadExpertRows) {}

  __device__ Rows of(int expert) const {
    const int64_t begin = min(max(int64_t{offsets[expert]}, int64_t{0}), rows);
    return {begin, min(max(int64_t{offsets[expert + 1]}, begin), rows)};
  }
  __device__ bool is_bad(int expert) const {
    return offsets[expert] < 0 || offsets[expert] > offsets[expert + 1] ||
           offsets[expert + 1] > rows;
  }
  // By one block of a launch: the first bad expert.
  __device__ void report_bad() const {
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += static_cast<int>(blockDim.x)) {
      bool is_first = is_bad(e);
      for (int before = 0; before < e && is_first; ++before) is_first = !is_bad(before);
      if (is_first) report(offsets[e], offsets[e + 1], e, rows);
    }
  }
};

// Tile number `slot` of all experts' tiles of kSide rows, by each warp for itself.
struct RowTile {
  int expert;      // -1 if there are fewer tiles
  Rows rows;       // of the expert
  int64_t number;  // among the expert's tiles
};
template <int kSide>
__device__ inline RowTile find_tile(const Groups& groups, int64_t slot) {
  constexpr unsigned kWholeWarp = 0xffffffff;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t before = 0;  // tiles of the experts before these 32
  for (int first = 0; first < groups.experts; first += kWarp) {
    const Rows rows = first + lane < groups.experts ? groups.of(first + lane) : Rows{0, 0};
    const int64_t tiles = (rows.end - rows.begin + kSide - 1) / kSide;
    int64_t sum = tiles;  // up to this lane's expert
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int64_t left = __shfl_up_sync(kWholeWarp, sum, offset);
      if (lane >= offset) sum += left;
    }
    const unsigned beyond = __ballot_sync(kWholeWarp, before + sum > slot);
    if (beyond != 0) {
      const int source = __ffs(static_cast<int>(beyond)) - 1;
      return {
          first + source,
          {__shfl_sync(kWholeWarp, rows.begin, source), __shfl_sync(kWholeWarp, rows.end, source)},
          slot - before - __shfl_sync(kWholeWarp, sum - tiles, source)};
    }
    before += __shfl_sync(kWholeWarp, sum, kWarp - 1);
  }
  return {-1, {0, 0}, 0};
}

}  // namespace sextant::cuda

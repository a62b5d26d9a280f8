// Tiles of 128 x 256. A warp copies boxes of both operands, 64 k at a time, to a ring of four
// stages in shared memory; two warpgroups multiply 64 x 256 each. A block works on one tile after
// the other and finds their experts from the offsets in device memory; copies run ahead into its
// next tile. A sum goes along k in steps of 16, the same for any place of its element in a tile.
#include <cudaTypedefs.h>

#include "ops/cuda/grouped_hopper.h"
#include "ops/cuda/grouped_hopper_sums.cuh"
#include "ops/cuda/grouped_rows.cuh"
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {
namespace {

using namespace hopper;

constexpr int kTileM = 128, kTileN = kProductN, kTileK = 64, kStages = 4;
constexpr int kBytesA = kTileM * kTileK * 2, kBytesB = kTileN * kTileK * 2;
constexpr int kStageBytes = kBytesA + kBytesB;
constexpr int kShared = kStages * kStageBytes + kSwizzleBytes;  // to align it
constexpr int kGroupThreads = 128, kMultipliers = 2 * kGroupThreads;
constexpr int kHopperThreads = kGroupThreads + kMultipliers;
constexpr int kAllMultipliers = 1;  // the barrier of their threads
constexpr int kCopierRegisters = 40, kMultiplierRegisters = 232;
constexpr int kTilesHigh = 16;  // of an expert that blocks go through together, for the L2 cache

constexpr Along along_a(GroupedProduct product) {
  return product == GroupedProduct::WeightGradient ? Along::Side : Along::K;
}
constexpr Along along_b(GroupedProduct product) {
  return product == GroupedProduct::Forward ? Along::K : Along::Side;
}

// m: rows of one expert's weight gradient; the rows of all experts of the other products
struct Sizes {
  int m, n, depth, m_tiles, n_tiles;  // depth: of all but the weight gradient
};

// A tile of c, and where its operands begin in the matrices a and b.
struct Tile {
  int expert;
  int a_side, a_k, b_side, b_k, depth;
  int64_t row;                // of c
  int column, rows, columns;  // from the first ones on, those that exist
};

// Tile number `slot`, by each warp for itself; expert -1 if there are fewer.
template <GroupedProduct kProduct>
__device__ Tile tile_of(const Groups& groups, const Sizes& sizes, int slot) {
  if constexpr (kProduct == GroupedProduct::WeightGradient) {
    const int of_expert = sizes.m_tiles * sizes.n_tiles, expert = slot / of_expert;
    if (expert >= groups.experts) return {.expert = -1};
    const Rows rows = groups.of(expert);
    const int at = slot % of_expert, first = at / (kTilesHigh * sizes.n_tiles) * kTilesHigh;
    const int height = min(kTilesHigh, sizes.m_tiles - first), rest = at - first * sizes.n_tiles;
    const int m = (first + rest % height) * kTileM, n = rest / height * kTileN;
    const int begin = static_cast<int>(rows.begin);
    return {.expert = expert,
            .a_side = m,
            .a_k = begin,
            .b_side = n,
            .b_k = begin,
            .depth = static_cast<int>(rows.end) - begin,
            .row = int64_t{expert} * sizes.m + m,
            .column = n,
            .rows = sizes.m - m,
            .columns = sizes.n - n};
  } else {
    const RowTile found = find_tile<kTileM>(groups, slot / sizes.n_tiles);
    if (found.expert < 0) return {.expert = -1};
    const int begin = static_cast<int>(found.rows.begin), end = static_cast<int>(found.rows.end);
    const int m_tiles = (end - begin + kTileM - 1) / kTileM;
    // Among the expert's tiles: those of the rows before, and those of this row.
    const int at = static_cast<int>(found.number) * sizes.n_tiles + slot % sizes.n_tiles;
    const int first = at / (kTilesHigh * sizes.n_tiles) * kTilesHigh;
    const int height = min(kTilesHigh, m_tiles - first), rest = at - first * sizes.n_tiles;
    const int row = begin + (first + rest % height) * kTileM, n = rest / height * kTileN;
    constexpr bool kIsForward = kProduct == GroupedProduct::Forward;
    return {.expert = found.expert,
            .a_side = row,
            .a_k = 0,
            .b_side = n + (kIsForward ? found.expert * sizes.n : 0),
            .b_k = kIsForward ? 0 : found.expert * sizes.depth,
            .depth = sizes.depth,
            .row = row,
            .column = n,
            .rows = end - row,
            .columns = sizes.n - n};
  }
}

// The ring of stages, as the copier and each multiplier go round it.
struct Ring {
  uint32_t stages, full, empty;  // shared addresses of the first of each
  int at = 0;
  uint32_t parity = 0;

  __device__ uint32_t stage() const { return stages + at * kStageBytes; }
  __device__ uint32_t is_full() const { return full + at * sizeof(uint64_t); }
  __device__ uint32_t is_empty() const { return empty + at * sizeof(uint64_t); }
  __device__ void advance() {
    if (++at < kStages) return;
    at = 0;
    parity ^= 1;
  }
};

// [kSide, 64 k] from (side, k) on. What lies beyond the matrix becomes 0.
template <Along kAlong, int kSide>
__device__ void copy_operand(uint32_t to, const CUtensorMap& map, uint32_t barrier, int side,
                             int k) {
  if constexpr (kAlong == Along::K) {
    copy_box(to, map, barrier, side, k);
  } else {
#pragma unroll
    for (int i = 0; i < kSide / 64; ++i)
      copy_box(to + i * kColumnBytes, map, barrier, k, side + i * 64);
  }
}

template <GroupedProduct kProduct>
__device__ void copy_tiles(const CUtensorMap& map_a, const CUtensorMap& map_b, const Groups& groups,
                           const Sizes& sizes, Ring ring) {
  for (int slot = static_cast<int>(blockIdx.x);; slot += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of<kProduct>(groups, sizes, slot);
    if (tile.expert < 0) return;
    for (int k = 0; k < tile.depth && threadIdx.x == 0; k += kTileK) {
      wait(ring.is_empty(), ring.parity ^ 1);
      const uint32_t full = ring.is_full();
      arrive_expecting(full, kStageBytes);
      copy_operand<along_a(kProduct), kTileM>(ring.stage(), map_a, full, tile.a_side, tile.a_k + k);
      copy_operand<along_b(kProduct), kTileN>(ring.stage() + kBytesA, map_b, full, tile.b_side,
                                              tile.b_k + k);
      ring.advance();
    }
    __syncwarp();
  }
}

// Clears the lines of k from `count` on of an operand along its side: there lie other rows, or
// anything. By all multipliers.
template <Along kAlong, int kSide>
__device__ void clear_behind(uint32_t operand, int count) {
  if constexpr (kAlong == Along::Side) {
    constexpr int kUnits = kLineBytes / 16;
    const int units = (kTileK - count) * kUnits;
    for (int i = static_cast<int>(threadIdx.x) - kGroupThreads; i < units; i += kMultipliers)
#pragma unroll
      for (int column = 0; column < kSide / 64; ++column)
        clear_16(operand + column * kColumnBytes + count * kLineBytes + i * 16);
  }
}

// sums = the products of this warpgroup's rows.
template <class T, GroupedProduct kProduct>
__device__ void multiply_tile(float (&sums)[128], const Tile& tile, Ring& ring) {
  constexpr Along kA = along_a(kProduct), kB = along_b(kProduct);
  // Between steps of 16 k: in a line, or by lines.
  constexpr int kStepA = kA == Along::K ? kProductK * 2 : kProductK * kLineBytes;
  constexpr int kStepB = kB == Along::K ? kProductK * 2 : kProductK * kLineBytes;
  const int own = static_cast<int>(threadIdx.x) / kGroupThreads - 1;
  const bool is_first_lane = threadIdx.x % kWarp == 0;
#pragma unroll
  for (float& sum : sums) sum = 0;
  uint32_t before = 0;  // the barrier of the stage before, which is being read
  for (int k = 0; k < tile.depth; k += kTileK) {
    wait(ring.is_full(), ring.parity);
    const uint32_t a = ring.stage(), b = a + kBytesA;
    if ((kA == Along::Side || kB == Along::Side) && tile.depth - k < kTileK) {
      clear_behind<kA, kTileM>(a, tile.depth - k);
      clear_behind<kB, kTileN>(b, tile.depth - k);
      publish_writes();
      meet<kAllMultipliers, kMultipliers>();
    }
    const uint64_t first_a = describe<kA>(a + own * kProductM * kLineBytes);
    const uint64_t first_b = describe<kB>(b);
    begin_products();
#pragma unroll
    for (int step = 0; step < kTileK / kProductK; ++step)
      hopper::multiply_add<T, kA, kB>(sums, first_a + step * kStepA / 16,
                                      first_b + step * kStepB / 16);
    end_products();
    wait_products<1>();
    if (k > 0 && is_first_lane) arrive(before);
    before = ring.is_empty();
    ring.advance();
  }
  wait_products<0>();
  if (tile.depth > 0 && is_first_lane) arrive(before);
  pin(sums);
}

template <class T, class G, GroupedProduct kProduct>
__device__ void multiply_tiles(G* c, const Groups& groups, const Sizes& sizes, Write write,
                               Ring ring) {
  const int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  const int row = thread / kWarp * 16 + thread % kWarp / 4;  // two warpgroups of 4 x 16 rows
  for (int slot = static_cast<int>(blockIdx.x);; slot += static_cast<int>(gridDim.x)) {
    const Tile tile = tile_of<kProduct>(groups, sizes, slot);
    if (tile.expert < 0) return;
    if (tile.depth == 0 && write == Write::Add) continue;
    float sums[128];
    multiply_tile<T, kProduct>(sums, tile, ring);
    const Window<G> window{c + (tile.row + row) * sizes.n + tile.column, sizes.n, tile.rows - row,
                           tile.columns};
    if constexpr (sizeof(G) == 2)
      if (write == Write::Replace) {
        replace_sums(window, sums);
        continue;
      }
    write_sums(window, sums, write);
  }
}

template <class T, class G, GroupedProduct kProduct>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_kernel(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b, G* c, Groups groups, Sizes sizes,
                  Write write) {
  __shared__ uint64_t full[kStages], empty[kStages];
  const uint32_t shared = shared_address(shared_memory());
  const Ring ring{(shared + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes,
                  shared_address(full), shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      make_barrier(shared_address(full + i), 1);
      make_barrier(shared_address(empty + i), kMultipliers / kWarp);
    }
    publish_barriers();
  }
  if (blockIdx.x == 0) groups.report_bad();
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    give_up_registers<kCopierRegisters>();
    if (threadIdx.x < kWarp) copy_tiles<kProduct>(map_a, map_b, groups, sizes, ring);
  } else {
    take_registers<kMultiplierRegisters>();
    multiply_tiles<T, G, kProduct>(c, groups, sizes, write, ring);
  }
}

PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
  SXT_CHECK(result == cudaDriverEntryPointSuccess, Failure,
            "the CUDA driver has no cuTensorMapEncodeTiled; it must be of CUDA 12.0 or later");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// Boxes of 64 columns and `box_rows` rows of a matrix.
CUtensorMap map_of(const char* op, const Tensor& matrix, int box_rows) {
  const auto type = matrix.dtype() == DType::BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.dim(1)),
                              static_cast<cuuint64_t>(matrix.dim(0))};
  const cuuint64_t strides[] = {sizes[0] * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)}, steps[] = {1, 1};
  CUtensorMap map;
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
  const CUresult result =
      encode(&map, type, 2, const_cast<std::byte*>(matrix.raw()), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  SXT_CHECK(result == CUDA_SUCCESS, Failure, op, ": cuTensorMapEncodeTiled of ", matrix.shape(),
            " failed with error ", static_cast<int>(result));
  return map;
}

int attribute_of(Stream& stream, cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, stream.device().index), "cudaDeviceGetAttribute");
  return value;
}

bool is_supported(Stream& stream, const Tensor& c, const Tensor& a, const Tensor& b) {
  constexpr int64_t kMost = int64_t{1} << 30;  // of numbers that the kernel keeps in 32 bits
  if (a.dtype() != DType::BF16 && a.dtype() != DType::F16) return false;
  if (c.elements() == 0 || a.elements() == 0 || b.elements() == 0) return false;
  for (const Tensor* tensor : {&c, static_cast<const Tensor*>(&a), &b})
    if (tensor->dim(1) % 8 != 0 || tensor->dim(0) > kMost || tensor->dim(1) > kMost) return false;
  return are_aligned({c.raw(), a.raw(), b.raw()}) &&
         attribute_of(stream, cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute_of(stream, cudaDevAttrComputeCapabilityMinor) == 0;
}

template <class T, class G, GroupedProduct kProduct>
void launch_product(Stream& stream, const char* op, Tensor& c, const Tensor& a, const Tensor& b,
                    const Groups& groups, Write write) {
  constexpr bool kIsWeight = kProduct == GroupedProduct::WeightGradient;
  const int64_t m = kIsWeight ? a.dim(1) : c.dim(0), n = c.dim(1);
  const int64_t m_tiles = ceil_div(m, kTileM), n_tiles = ceil_div(n, kTileN);
  // Each expert has at most one tile of rows that is not full.
  const int64_t tiles = (kIsWeight ? groups.experts * m_tiles : m_tiles + groups.experts) * n_tiles;
  SXT_CHECK(tiles < int64_t{1} << 30, Usage, op, ": ", tiles, " tiles, must be less than 2^30");
  const Sizes sizes{static_cast<int>(m), static_cast<int>(n),
                    kIsWeight ? 0 : static_cast<int>(a.dim(1)), static_cast<int>(m_tiles),
                    static_cast<int>(n_tiles)};
  const int box_a = along_a(kProduct) == Along::K ? kTileM : kTileK;
  const int box_b = along_b(kProduct) == Along::K ? kTileN : kTileK;
  const int64_t blocks =
      std::min<int64_t>(tiles, attribute_of(stream, cudaDevAttrMultiProcessorCount));
  launch(stream, op, hopper_kernel<T, G, kProduct>, blocks, kHopperThreads, kShared,
         map_of(op, a, box_a), map_of(op, b, box_b), c.data<G>(), groups, sizes, write);
}

}  // namespace

bool grouped_hopper(Stream& stream, const char* op, GroupedProduct product, Tensor& c,
                    const Tensor& a, const Tensor& b, const Tensor& offsets, Write write) {
  if (!is_supported(stream, c, a, b)) return false;
  const Groups groups(stream, op, offsets, a.dim(0));
  const auto run = [&]<class T>(T) {
    using enum GroupedProduct;
    if (product == Forward)
      return launch_product<T, T, Forward>(stream, op, c, a, b, groups, write);
    if (product == InputGradient)
      return launch_product<T, T, InputGradient>(stream, op, c, a, b, groups, write);
    with_either<T>(op, c.dtype(), [&]<class G>(G) {
      launch_product<T, G, WeightGradient>(stream, op, c, a, b, groups, write);
    });
  };
  if (a.dtype() == DType::BF16)
    run(bf16{});
  else
    run(f16{});
  return true;
}

}  // namespace sextant::cuda

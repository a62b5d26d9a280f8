// A stable counting sort: a warp counts the pairs of each expert in its chunk of pairs, the counts
// of the chunks before it are added up for each expert, and the warp goes through its chunk once
// more. No step depends on the order in which threads run.
#include "ops/cuda/bad_rows.h"
#include "ops/cuda/block_scan.h"
#include "ops/fault_texts.h"
#include "ops/moe_permute.h"

namespace sextant::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffff;

__device__ int lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// Pairs in chunks, each of one warp.
struct Pairs {
  const int32_t* expert;
  int64_t count, chunks, each;  // pairs of a chunk
  int experts;
  Report report;

  __device__ bool is_bad(int32_t value) const { return value < 0 || value >= experts; }
  // -1 for a pair beyond `end` or one whose expert does not exist.
  __device__ int expert_of(int64_t pair, int64_t end) const {
    return pair < end && !is_bad(expert[pair]) ? expert[pair] : -1;
  }
  // f(pair, end) of the warp's chunk, 32 neighbours at a time, by all lanes together.
  template <class F>
  __device__ void for_chunk(int64_t chunk, const F& f) const {
    const int64_t begin = chunk * each, end = min(count, begin + each);
    for (int64_t first = begin; first < end; first += kWarp) f(first + lane(), end);
  }
};

__device__ int64_t chunk_of_warp() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}

// before: [chunks, experts], the pairs of each expert in the chunk.
__global__ void __launch_bounds__(kBlock) count_kernel(int32_t* before, Pairs pairs) {
  const int64_t chunk = chunk_of_warp();
  if (chunk >= pairs.chunks) return;
  int32_t* counts = before + chunk * pairs.experts;
  for (int e = lane(); e < pairs.experts; e += kWarp) counts[e] = 0;
  __syncwarp();
  pairs.for_chunk(chunk, [&](int64_t pair, int64_t end) {
    const int expert = pairs.expert_of(pair, end);
    const unsigned same = __match_any_sync(kAllLanes, expert);
    if (expert >= 0 && lane() == __ffs(static_cast<int>(same)) - 1) counts[expert] += __popc(same);
    __syncwarp();
  });
}

// first[e]: the first place of expert e.
__global__ void __launch_bounds__(kScan)
    first_kernel(int32_t* first, const int32_t* counts, int64_t experts) {
  scan(
      experts, [&](int64_t e) { return int64_t{counts[e]}; },
      [&](int64_t e, int64_t before, int64_t) { first[e] = static_cast<int32_t>(before); });
}

// before: from the counts of each chunk to the place of its first pair, a thread for each expert.
__global__ void __launch_bounds__(kBlock)
    sum_chunks_kernel(int32_t* before, const int32_t* first, int64_t chunks, int experts) {
  constexpr int kAhead = 8;
  const int64_t expert = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (expert >= experts) return;
  int32_t place = first[expert];
  for (int64_t chunk = 0; chunk < chunks; chunk += kAhead) {
    int32_t counts[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      counts[i] = chunk + i < chunks ? before[(chunk + i) * experts + expert] : 0;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (chunk + i < chunks) before[(chunk + i) * experts + expert] = place;
      place += counts[i];
    }
  }
}

__global__ void __launch_bounds__(kBlock)
    places_kernel(int32_t* places, int32_t* before, Pairs pairs) {
  const int64_t chunk = chunk_of_warp();
  if (chunk >= pairs.chunks) return;
  int32_t* next = before + chunk * pairs.experts;
  pairs.for_chunk(chunk, [&](int64_t pair, int64_t end) {
    const int expert = pairs.expert_of(pair, end);
    const unsigned same = __match_any_sync(kAllLanes, expert);
    const int rank = __popc(same & ((1U << lane()) - 1));
    if (pair < end) places[pair] = expert >= 0 ? next[expert] + rank : 0;
    if (pair < end && expert < 0) {
      const auto is_bad = [&](int32_t value) { return pairs.is_bad(value); };
      if (is_first_bad(pairs.expert, pair, is_bad))
        pairs.report(pairs.expert[pair], pair, pairs.experts);
    }
    __syncwarp();
    if (expert >= 0 && rank == 0) next[expert] += __popc(same);
    __syncwarp();
  });
}

}  // namespace

void moe_places(Stream& stream, Tensor& places, const Tensor& choice, const Tensor& counts) {
  constexpr const char* kOp = "moe_places";
  constexpr int64_t kMostChunks = 256;  // that a thread adds up one after another
  const int64_t experts = counts.dim(0), count = choice.elements();
  if (count == 0) return;
  int32_t* first = whole_numbers(stream, kOp, 2 * experts);
  int32_t* before = first + experts;
  const auto words = static_cast<int64_t>(stream.shared_scratch().size() / sizeof(int32_t));
  const int64_t most = std::min({kMostChunks, ceil_div(count, kWarp), words / experts - 1});
  const int64_t each = ceil_div(ceil_div(count, most), kWarp) * kWarp;
  const Pairs pairs{.expert = choice.data<int32_t>(),
                    .count = count,
                    .chunks = ceil_div(count, each),
                    .each = each,
                    .experts = static_cast<int>(experts),
                    .report = Report(stream, Fault::Internal, kOp, kBadExpertOfPair)};
  const dim3 warps = grid_of(pairs.chunks * kWarp);
  launch(stream, kOp, count_kernel, warps, kBlock, before, pairs);
  launch(stream, kOp, first_kernel, 1, kScan, first, counts.data<int32_t>(), experts);
  launch(stream, kOp, sum_chunks_kernel, grid_of(experts), kBlock, before, first, pairs.chunks,
         pairs.experts);
  launch(stream, kOp, places_kernel, warps, kBlock, places.data<int32_t>(), before, pairs);
}

}  // namespace sextant::cuda

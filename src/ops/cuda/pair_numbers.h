#pragma once
// Numbers of pairs (choices of tokens) among those of their expert, by a stable counting sort: a
// warp counts the pairs of each expert in its chunk of pairs, the counts of the chunks before it
// are added up for each expert, and the warp goes through its chunk once more. No step depends on
// the order in which threads run.
#include "ops/cuda/bad_rows.h"
#include "ops/cuda/block_scan.h"
#include "ops/fault_texts.h"
#include "ops/moe_capacity.h"

namespace sextant::cuda {

inline constexpr unsigned kAllLanes = 0xffffffff;

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// Pairs in chunks, each of one warp. `before`, in the shared scratch: [chunks, experts], from the
// counts of each chunk to the number of its first pair.
struct Pairs {
  const int32_t* expert;
  int64_t count, chunks, each;  // pairs of a chunk
  int experts;
  int32_t* before;

  // -1 for a pair beyond `end` or one without an expert.
  __device__ int expert_of(int64_t pair, int64_t end) const {
    return pair < end && expert[pair] >= 0 && expert[pair] < experts ? expert[pair] : -1;
  }
  // f(pair, end) of the warp's chunk, 32 neighbours at a time, by all lanes together.
  template <class F>
  __device__ void for_chunk(int64_t chunk, const F& f) const {
    const int64_t begin = chunk * each, end = min(count, begin + each);
    for (int64_t first = begin; first < end; first += kWarp) f(first + lane(), end);
  }
  // f(pair, number) of every pair of this warp's chunk; the number of one without an expert is -1.
  template <class F>
  __device__ void for_numbers(const F& f) const;
};

// Which values are no expert, and not reported: none, or kDropped.
enum class Absent { Reported, Dropped };

struct BadExperts {
  Report report;
  Absent absent;
  int64_t experts;

  __device__ bool operator()(int32_t value) const {
    return (value < 0 || value >= experts) && (absent == Absent::Reported || value != kDropped);
  }
  // By one thread of a pair.
  __device__ void look(const int32_t* expert, int64_t pair) const {
    if ((*this)(expert[pair]) && is_first_bad(expert, pair, *this))
      report(expert[pair], pair, experts);
  }
};

__device__ inline int64_t chunk_of_warp() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}

template <class F>
__device__ void Pairs::for_numbers(const F& f) const {
  const int64_t chunk = chunk_of_warp();
  if (chunk >= chunks) return;
  int32_t* next = before + chunk * experts;
  for_chunk(chunk, [&](int64_t pair, int64_t end) {
    const int own = expert_of(pair, end);
    const unsigned same = __match_any_sync(kAllLanes, own);
    const int rank = __popc(same & ((1U << lane()) - 1));
    if (pair < end) f(pair, own >= 0 ? next[own] + rank : -1);
    __syncwarp();
    if (own >= 0 && rank == 0) next[own] += __popc(same);
    __syncwarp();
  });
}

namespace {

// The pairs of each expert in each chunk.
__global__ void __launch_bounds__(kBlock) count_chunks_kernel(Pairs pairs, BadExperts bad) {
  const int64_t chunk = chunk_of_warp();
  if (chunk >= pairs.chunks) return;
  int32_t* counts = pairs.before + chunk * pairs.experts;
  for (int e = lane(); e < pairs.experts; e += kWarp) counts[e] = 0;
  __syncwarp();
  pairs.for_chunk(chunk, [&](int64_t pair, int64_t end) {
    const int expert = pairs.expert_of(pair, end);
    const unsigned same = __match_any_sync(kAllLanes, expert);
    if (expert >= 0 && lane() == __ffs(static_cast<int>(same)) - 1) counts[expert] += __popc(same);
    if (pair < end) bad.look(pairs.expert, pair);
    __syncwarp();
  });
}

// A thread for each expert. first[e]: the number of its first pair; null: 0.
__global__ void __launch_bounds__(kBlock) sum_chunks_kernel(Pairs pairs, const int32_t* first) {
  constexpr int kAhead = 8;
  const int64_t expert = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (expert >= pairs.experts) return;
  int32_t number = first != nullptr ? first[expert] : 0;
  for (int64_t chunk = 0; chunk < pairs.chunks; chunk += kAhead) {
    int32_t counts[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      counts[i] = chunk + i < pairs.chunks ? pairs.before[(chunk + i) * pairs.experts + expert] : 0;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (chunk + i < pairs.chunks) pairs.before[(chunk + i) * pairs.experts + expert] = number;
      number += counts[i];
    }
  }
}

// The pairs of `choice`, of which there is one at least, before they are counted. `experts` whole
// numbers at the start of the shared scratch stay free.
Pairs pairs_of(Stream& stream, const char* op, const Tensor& choice, int64_t experts) {
  constexpr int64_t kMostChunks = 256;  // that a thread adds up one after another
  const int64_t count = choice.elements();
  int32_t* free = whole_numbers(stream, op, 2 * experts);
  const auto words = static_cast<int64_t>(stream.shared_scratch().size() / sizeof(int32_t));
  const int64_t most = std::min({kMostChunks, ceil_div(count, kWarp), words / experts - 1});
  const int64_t each = ceil_div(ceil_div(count, most), kWarp) * kWarp;
  return {.expert = choice.data<int32_t>(),
          .count = count,
          .chunks = ceil_div(count, each),
          .each = each,
          .experts = static_cast<int>(experts),
          .before = free + experts};
}

dim3 grid_of_chunks(const Pairs& pairs) {
  return grid_of(pairs.chunks * kWarp);
}

// Fills pairs.before, and reports bad experts.
void count_chunks(Stream& stream, const char* op, const Pairs& pairs, Absent absent,
                  const int32_t* first) {
  const BadExperts bad{Report(stream, Fault::Internal, op, kBadExpertOfPair), absent,
                       pairs.experts};
  launch(stream, op, count_chunks_kernel, grid_of_chunks(pairs), kBlock, pairs, bad);
  launch(stream, op, sum_chunks_kernel, grid_of(pairs.experts), kBlock, pairs, first);
}

}  // namespace
}  // namespace sextant::cuda

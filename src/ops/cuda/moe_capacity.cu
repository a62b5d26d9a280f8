#include "ops/moe_capacity.h"

#include "ops/cuda/pair_numbers.h"

namespace sextant::cuda {
namespace {

// kept may be the pairs: bad experts were reported before.
__global__ void __launch_bounds__(kBlock)
    limit_kernel(int32_t* kept, Pairs pairs, int64_t capacity) {
  pairs.for_numbers([&](int64_t pair, int32_t number) {
    kept[pair] = number >= 0 && number < capacity ? pairs.expert[pair] : kDropped;
  });
}

// Whole numbers: the order of these sums does not matter.
__global__ void __launch_bounds__(kBlock)
    count_kernel(int32_t* counts, const int32_t* kept, int64_t pairs, BadExperts bad) {
  const int64_t pair = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int32_t value = pair < pairs ? kept[pair] : kDropped;
  const int expert = value >= 0 && value < bad.experts ? value : -1;
  const unsigned same = __match_any_sync(kAllLanes, expert);
  if (expert >= 0 && lane() == __ffs(static_cast<int>(same)) - 1)
    atomicAdd(counts + expert, __popc(same));
  if (pair < pairs) bad.look(kept, pair);
}

// A number of pairs is exact in f64, so the order of the blocks does not matter.
__global__ void __launch_bounds__(kBlock)
    count_dropped_kernel(double* dropped, const int32_t* places, int64_t pairs) {
  int64_t own = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pairs; i += stride)
    own += places[i] == kDropped ? 1 : 0;
  own = block_sum(own);
  if (threadIdx.x == 0 && own > 0) atomicAdd(dropped, static_cast<double>(own));
}

}  // namespace

void moe_limit(Stream& stream, Tensor& kept, const Tensor& choice, int64_t capacity,
               int64_t experts) {
  constexpr const char* kOp = "moe_limit";
  if (choice.elements() == 0) return;
  const Pairs pairs = pairs_of(stream, kOp, choice, experts);
  count_chunks(stream, kOp, pairs, Absent::Reported, nullptr);
  launch(stream, kOp, limit_kernel, grid_of_chunks(pairs), kBlock, kept.data<int32_t>(), pairs,
         capacity);
}

void moe_count(Stream& stream, Tensor& counts, const Tensor& kept) {
  constexpr const char* kOp = "moe_count";
  check(cudaMemsetAsync(counts.raw(), 0, static_cast<size_t>(counts.bytes()), queue_of(stream)),
        kOp);
  const BadExperts bad{Report(stream, Fault::Internal, kOp, kBadExpertOfPair), Absent::Dropped,
                       counts.dim(0)};
  launch(stream, kOp, count_kernel, grid_of(kept.elements()), kBlock, counts.data<int32_t>(),
         kept.data<int32_t>(), kept.elements(), bad);
}

void moe_count_dropped(Stream& stream, Tensor& dropped, const Tensor& places) {
  constexpr int64_t kMostBlocks = 256;
  const int64_t pairs = places.elements();
  launch(stream, "moe_count_dropped", count_dropped_kernel,
         static_cast<unsigned>(std::min(ceil_div(pairs, kBlock), kMostBlocks)), kBlock,
         dropped.data<double>(), places.data<int32_t>(), pairs);
}

}  // namespace sextant::cuda

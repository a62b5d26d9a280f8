// The place of a pair is the first place of its expert and its number among the expert's pairs.
#include "ops/cuda/pair_numbers.h"
#include "ops/moe_permute.h"

namespace sextant::cuda {
namespace {

// first[e]: the first place of expert e.
__global__ void __launch_bounds__(kScan)
    first_kernel(int32_t* first, const int32_t* counts, int64_t experts) {
  scan(
      experts, [&](int64_t e) { return int64_t{counts[e]}; },
      [&](int64_t e, int64_t before, int64_t) { first[e] = static_cast<int32_t>(before); });
}

__global__ void __launch_bounds__(kBlock) places_kernel(int32_t* places, Pairs pairs) {
  pairs.for_numbers([&](int64_t pair, int32_t number) {
    places[pair] = number >= 0 ? number : pairs.expert[pair] == kDropped ? kDropped : 0;
  });
}

}  // namespace

void moe_places(Stream& stream, Tensor& places, const Tensor& choice, const Tensor& counts) {
  constexpr const char* kOp = "moe_places";
  const int64_t experts = counts.dim(0);
  if (choice.elements() == 0) return;
  const Pairs pairs = pairs_of(stream, kOp, choice, experts);
  int32_t* first = whole_numbers(stream, kOp, experts);
  launch(stream, kOp, first_kernel, 1, kScan, first, counts.data<int32_t>(), experts);
  count_chunks(stream, kOp, pairs, Absent::Dropped, first);
  launch(stream, kOp, places_kernel, grid_of_chunks(pairs), kBlock, places.data<int32_t>(), pairs);
}

}  // namespace sextant::cuda

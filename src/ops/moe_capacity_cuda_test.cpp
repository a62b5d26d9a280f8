#include "ops/moe_capacity.h"

#include "ops/moe_permute.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using Ints = std::vector<int32_t>;

class MoeCapacityCuda : public CudaTest {};

struct Limited {
  Ints kept, in_place, counts, places;
  double dropped = 0;
  friend bool operator==(const Limited&, const Limited&) = default;
};

Limited limit_on(Workbench& bench, const Shape& shape, const Ints& choices, int64_t capacity,
                 int64_t experts) {
  Stream& stream = bench.stream();
  Tensor choice = bench.make<int32_t>(shape, choices), kept = bench.empty<int32_t>(shape);
  moe_limit(stream, kept, choice, capacity, experts);
  moe_limit(stream, choice, choice, capacity, experts);
  Tensor counts = bench.make<int32_t>({experts}, Ints(static_cast<size_t>(experts), -7));
  moe_count(stream, counts, kept);
  Tensor places =
      bench.make<int32_t>({choice.elements()}, Ints(static_cast<size_t>(choice.elements()), -7));
  moe_places(stream, places, kept, counts);
  Tensor dropped = bench.make<double>({1}, {5});
  moe_count_dropped(stream, dropped, places);
  stream.check_data();
  return {bench.read<int32_t>(kept), bench.read<int32_t>(choice), bench.read<int32_t>(counts),
          bench.read<int32_t>(places), bench.read<double>(dropped)[0]};
}

// Chunks of one warp and of several, more pairs than the chunks of a launch have lanes, experts
// without tokens, all tokens on one.
TEST_F(MoeCapacityCuda, LimitsCountsAndPlacesAreThoseOfTheCpu) {
  struct Size {
    int64_t tokens, chosen, experts;
  };
  for (const Size& size : {Size{1, 1, 1}, Size{0, 2, 4}, Size{5, 2, 3}, Size{33, 8, 256},
                           Size{700, 4, 16}, Size{9001, 8, 40}, Size{20, 3, 3000}})
    for (const int64_t used : {int64_t{1}, size.experts}) {
      const int64_t pairs = size.tokens * size.chosen;
      const Ints choices = some_below(pairs, used);
      for (const int64_t capacity : {int64_t{1}, pairs / size.experts + 1, pairs + 1}) {
        const Shape shape = {size.tokens, size.chosen};
        const auto cpu = limit_on(on(DeviceKind::Cpu), shape, choices, capacity, size.experts);
        const auto gpu = limit_on(on(DeviceKind::Cuda), shape, choices, capacity, size.experts);
        EXPECT_TRUE(gpu == cpu) << pairs << " pairs on " << used << " of " << size.experts
                                << " experts, capacity " << capacity;
        EXPECT_EQ(gpu.kept, gpu.in_place);
      }
    }
}

TEST_F(MoeCapacityCuda, BadExpertsAreReportedAsOnTheCpu) {
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Stream& stream = bench.stream();
    // The third pair is dropped before the bad one is met.
    Tensor choice = bench.make<int32_t>({6, 1}, {0, 1, 0, 5, 1, kDropped});
    Tensor counts = bench.empty<int32_t>({2});
    moe_count(stream, counts, choice);
    EXPECT_ERROR(stream.check_data(), Internal, "moe_count: expert 5 of pair 3, there are 2");
    EXPECT_EQ(bench.read<int32_t>(counts), (Ints{2, 2}));
    moe_limit(stream, choice, choice, 1, 2);
    EXPECT_ERROR(stream.check_data(), Internal, "moe_limit: expert 5 of pair 3, there are 2");
    EXPECT_EQ(bench.read<int32_t>(choice), (Ints{0, 1, kDropped, kDropped, kDropped, kDropped}));
  }
}

}  // namespace
}  // namespace sextant

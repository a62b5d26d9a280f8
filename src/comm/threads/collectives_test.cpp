// Every collective against what it is defined to give, over threads.
#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <vector>

#include "comm/run_ranks.h"
#include "support/collective_checks.h"
#include "support/on_devices.h"

namespace sextant {
namespace {

class Collectives : public testing::TestWithParam<std::tuple<DeviceKind, int>> {
 protected:
  void SetUp() override {
    if (device() == DeviceKind::Cuda) SXT_NEEDS_GPU();
  }
  static DeviceKind device() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
};

TEST_P(Collectives, GiveWhatTheyAreDefinedToGive) {
  run_ranks(ranks(), [](Communicator& world) {
    check_all_collectives<float>(world, When::Now, device());
    check_all_collectives<double>(world, When::Now, device());
    check_all_collectives<bf16>(world, When::Now, device());
    check_all_collectives<f16>(world, When::Now, device());
    check_all_collectives<int32_t>(world, When::Now, device());
    check_all_collectives<int64_t>(world, When::Now, device());
  });
}

TEST_P(Collectives, GiveTheSameWhenTheyRunBesideTheRank) {
  run_ranks(ranks(), [](Communicator& world) {
    check_all_collectives<float>(world, When::Later, device());
    check_all_collectives<bf16>(world, When::Later, device());
  });
}

std::string name_of_ranks(const testing::TestParamInfo<std::tuple<DeviceKind, int>>& info) {
  return std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Cpu, Collectives,
                         testing::Combine(testing::Values(DeviceKind::Cpu),
                                          testing::Values(1, 2, 3, 4, 5, 8)),
                         name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Cuda, Collectives,
                         testing::Combine(testing::Values(DeviceKind::Cuda),
                                          testing::Values(1, 2, 3, 4, 5, 8)),
                         name_of_ranks);

class AllReduce : public OnDevices {};
SXT_ON_CPU_AND_GPU(AllReduce);
class Reductions : public OnDevices {};
SXT_ON_CPU_AND_GPU(Reductions);
class LargeCollectives : public OnDevices {};
SXT_ON_CPU_AND_GPU(LargeCollectives);

// As all_reduced_bits of the support, over threads.
template <class T>
std::vector<std::byte> all_reduced_bits(DeviceKind device, int ranks, int64_t count) {
  std::vector<std::byte> bits;
  run_ranks(ranks, [&](Communicator& world) {
    std::vector<std::byte> own = all_reduced_bits<T>(world, device, count);
    if (world.rank() == 0) bits = std::move(own);
  });
  return bits;
}

TEST_P(AllReduce, IsReduceScatterThenAllGatherToTheBitAndInTraffic) {
  for (const int ranks : {1, 2, 3, 8}) {
    EXPECT_FALSE(all_reduced_bits<float>(GetParam(), ranks, 5003).empty());
    EXPECT_FALSE(all_reduced_bits<bf16>(GetParam(), ranks, 5003).empty());
  }
}

TEST_P(Reductions, AreFoldedInRankOrder) {
  run_ranks(3, [](Communicator& world) {
    Workbench bench(1, GetParam());
    const std::array<float, 3> first = {1e8F, -1e8F, 1};  // 1, but 0 in any other order
    const std::vector<float> values(300, first[static_cast<size_t>(world.rank())]);
    Tensor all = bench.make<float>({300}, values), some = bench.make<float>({300}, values);
    Tensor part = bench.empty<float>({100});
    world.reduce_scatter(bench.stream(), part, all, ReduceOp::Sum);
    world.all_reduce(bench.stream(), all, ReduceOp::Sum);
    world.reduce(bench.stream(), some, ReduceOp::Sum, 2);
    EXPECT_EQ(bench.read<float>(part), std::vector<float>(100, 1));
    EXPECT_EQ(bench.read<float>(all), std::vector<float>(300, 1));
    EXPECT_EQ(bench.read<float>(some), world.rank() == 2 ? std::vector<float>(300, 1) : values);
  });
}

// Much enough to be written past the cache.
TEST_P(LargeCollectives, ArriveWhole) {
  run_ranks(3, [](Communicator& world) {
    const int64_t count = (int64_t{3} << 20) + 5;
    Workbench bench(1, GetParam());
    const Range part = even_part(count, 3, world.rank());
    Tensor whole = bench.make<float>({count}, rank_values<float>(world.rank(), 0, count));
    Tensor own = bench.empty<float>({part.size()});
    world.reduce_scatter(bench.stream(), own, whole, ReduceOp::Sum);
    world.all_gather(bench.stream(), whole, own);
    const std::vector<float> values = bench.read<float>(whole);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(values[static_cast<size_t>(i)], reduced_value(3, i, ReduceOp::Sum)) << i;
  });
}

TEST_P(AllReduce, HasTheSameBitsOnEveryRun) {
  const std::vector<std::byte> first = all_reduced_bits<float>(GetParam(), 5, 20011);
  for (int run = 0; run < 3; ++run) EXPECT_EQ(all_reduced_bits<float>(GetParam(), 5, 20011), first);
}

TEST(CudaAllReduce, HasTheBitsOfTheCpu) {
  SXT_NEEDS_GPU();
  for (const int ranks : {2, 5}) {
    EXPECT_EQ(all_reduced_bits<float>(DeviceKind::Cuda, ranks, 20011),
              all_reduced_bits<float>(DeviceKind::Cpu, ranks, 20011));
    EXPECT_EQ(all_reduced_bits<bf16>(DeviceKind::Cuda, ranks, 20011),
              all_reduced_bits<bf16>(DeviceKind::Cpu, ranks, 20011));
    EXPECT_EQ(all_reduced_bits<f16>(DeviceKind::Cuda, ranks, 20011),
              all_reduced_bits<f16>(DeviceKind::Cpu, ranks, 20011));
  }
}

}  // namespace
}  // namespace sextant

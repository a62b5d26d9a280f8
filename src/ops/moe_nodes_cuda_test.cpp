#include "ops/moe_nodes.h"

#include "ops/moe_capacity.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;
using Ints = std::vector<int32_t>;

class MoeNodesCuda : public CudaTest {};

// Choices among `experts`, of which every fifth is dropped.
Ints some_choices(int64_t count, int64_t experts) {
  Ints choices = some_below(count, experts);
  for (size_t i = 0; i < choices.size(); i += 5) choices[i] = kDropped;
  return choices;
}

TEST_F(MoeNodesCuda, NodesAndCountsAreThoseOfTheCpu) {
  struct Size {
    int64_t tokens, chosen, experts, nodes, ranks;  // ranks of a node
  };
  for (const Size& size : {Size{1, 1, 2, 2, 1}, Size{0, 2, 4, 2, 2}, Size{37, 2, 8, 2, 2},
                           Size{300, 8, 64, 8, 4}, Size{1000, 3, 6, 3, 2}}) {
    const Ints choices = some_choices(size.tokens * size.chosen, size.experts);
    const Range some{size.experts / 2, size.experts};
    const int64_t sources = size.nodes * size.ranks;
    const Ints gathered = some_below(sources * size.experts, 100);
    std::vector<Ints> results[2];
    for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
      Workbench& bench = on(device);
      const Tensor choice = bench.make<int32_t>({size.tokens, size.chosen}, choices);
      const auto poisoned = [&](const Shape& shape) {
        return bench.make<int32_t>(shape, Ints(static_cast<size_t>(shape.elements()), -7));
      };
      Tensor nodes = poisoned({size.tokens, size.nodes}), local = poisoned(choice.shape());
      Tensor counts = poisoned({size.ranks, some.size() * size.nodes});
      moe_nodes(bench.stream(), nodes, choice, size.experts);
      moe_local_choice(bench.stream(), local, choice, some);
      moe_node_counts(bench.stream(), counts,
                      bench.make<int32_t>({sources, size.experts}, gathered), some);
      for (const Tensor* tensor : {&nodes, &local, &counts})
        results[device == DeviceKind::Cuda].push_back(bench.read<int32_t>(*tensor));
      bench.stream().check_data();
    }
    EXPECT_EQ(results[1], results[0]) << size.tokens << " tokens, " << size.nodes << " nodes";
  }
}

// Rows of several copies and of none, with gates and without.
TEST_F(MoeNodesCuda, CopiesOfRowsAreThoseOfTheCpu) {
  for (const int64_t copies : {1, 3})
    for (const Shape& x : {Shape{1, 1}, Shape{37, 8}, Shape{20, 65}, Shape{9, 2056}}) {
      const Shape rows = {x[0] * copies + 2, x[1]};
      Ints places(static_cast<size_t>(x[0] * copies));
      for (size_t i = 0; i < places.size(); ++i)
        places[i] = i % 4 == 3 ? kDropped : static_cast<int32_t>(places.size() - 1 - i);
      const CudaTensor place = whole({x[0] * copies}, places);
      const CudaTensor gates = statistics({x[0], copies}, Use::In, 0.5, 0.2);
      const std::string size = concat(" of ", copies, " x ", x[0], " rows of ", x[1]);
      expect_like_cpu({"moe_copy_rows" + size, {changed(rows), in(x), place}, [](Stream& s, T t) {
                         moe_copy_rows(s, t[0], t[1], t[2], {});
                       }});
      expect_like_cpu({"moe_copy_rows with gates" + size,
                       {changed(rows), in(x), place, gates},
                       [](Stream& s, T t) { moe_copy_rows(s, t[0], t[1], t[2], t[3]); }});
    }
}

TEST_F(MoeNodesCuda, BadWholeNumbersAreReportedAsOnTheCpu) {
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Stream& stream = bench.stream();
    Tensor nodes = bench.empty<int32_t>({2, 2});
    moe_nodes(stream, nodes, bench.make<int32_t>({2, 2}, {kDropped, 3, 4, -2}), 4);
    EXPECT_ERROR(stream.check_data(), Internal, "moe_nodes: expert 4 of pair 2, there are 4");
    Tensor rows = bench.make<int32_t>({1, 1}, {8});
    moe_copy_rows(stream, rows, bench.make<int32_t>({2, 1}, {1, 2}),
                  bench.make<int32_t>({2}, {kDropped, 1}), {});
    EXPECT_ERROR(stream.check_data(), Internal, "moe_copy_rows: place 1 of pair 1, there are 1");
    EXPECT_EQ(bench.read<int32_t>(rows), (Ints{8}));
  }
}

}  // namespace
}  // namespace sextant

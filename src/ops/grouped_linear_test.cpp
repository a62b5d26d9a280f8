#include "ops/grouped_linear.h"

#include <gtest/gtest.h>

#include "ops/linear.h"
#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

using Reals = std::vector<double>;

TEST(GroupedLinear, EachRowGoesThroughItsExpertByHand) {
  Workbench bench;
  const Tensor x = bench.make<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor weight = bench.make<double>({3, 2}, {1, 1, 7, 7, 1, -1});  // one output each
  Tensor y = bench.empty<double>({3, 1});
  grouped_linear(bench.stream(), y, x, weight, bench.make<int32_t>({4}, {0, 1, 1, 3}));
  EXPECT_EQ(bench.read<double>(y), (Reals{3, -1, -1}));
}

struct Case {
  Tensor x, weight, dy, offsets, y, dx, dweight;
  template <class T>
  Case(Workbench& bench, const std::vector<int32_t>& at, int64_t rows, int64_t out, int64_t in, T) {
    const auto experts = static_cast<int64_t>(at.size()) - 1;
    x = bench.random<T>({rows, in}, "x");
    weight = bench.random<T>({experts * out, in}, "weight");
    dy = bench.random<T>({rows, out}, "dy");
    offsets = bench.make<int32_t>({experts + 1}, at);
    y = bench.empty<T>({rows, out});
    dx = bench.empty<T>({rows, in});
    dweight = bench.random<T>({experts * out, in}, "dweight");
  }
  void run(Workbench& bench, Write write) {
    grouped_linear(bench.stream(), y, x, weight, offsets);
    grouped_linear_backward_input(bench.stream(), dx, dy, weight, offsets);
    grouped_linear_backward_weight(bench.stream(), dweight, dy, x, offsets, write);
  }
};

TEST(GroupedLinear, GradientsAreThoseOfFiniteDifferences) {
  Workbench bench;
  Case c(bench, {0, 2, 2, 5}, 5, 3, 4, double{});
  c.run(bench, Write::Replace);
  const auto loss = [&] {
    grouped_linear(bench.stream(), c.y, c.x, c.weight, c.offsets);
    return dot(bench.stream(), c.y, c.dy);
  };
  expect_gradient(bench.stream(), c.x, c.dx, "x", loss);
  expect_gradient(bench.stream(), c.weight, c.dweight, "weight", loss);
}

// All the rows on one expert, none on another, and rows that belong to none.
TEST(GroupedLinear, HasTheBitsOfOneLinearPerExpert) {
  for (const std::vector<int32_t>& at :
       {std::vector<int32_t>{0, 40, 40, 97}, {0, 0, 97, 97}, {0, 20, 60, 80}}) {
    Workbench bench(2);
    Case c(bench, at, 97, 33, 70, float{});
    fill_zero(bench.stream(), c.y);
    const std::vector<float> before = bench.read<float>(c.dweight);
    Tensor added = bench.make<float>(c.dweight.shape(), before);
    c.run(bench, Write::Replace);
    grouped_linear_backward_weight(bench.stream(), added, c.dy, c.x, c.offsets, Write::Add);
    for (int64_t e = 0; e < 3; ++e) {
      const Range rows{at[static_cast<size_t>(e)], at[static_cast<size_t>(e) + 1]};
      const Range block{e * 33, (e + 1) * 33};
      Tensor y = bench.empty<float>({rows.size(), 33}), dx = bench.empty<float>({rows.size(), 70});
      Tensor dw = bench.empty<float>({33, 70}), none;
      linear(bench.stream(), y, c.x.slice(rows), c.weight.slice(block), {});
      linear_backward_input(bench.stream(), dx, c.dy.slice(rows), c.weight.slice(block), {});
      linear_backward_weight(bench.stream(), dw, none, c.dy.slice(rows), c.x.slice(rows),
                             Write::Replace);
      EXPECT_EQ(bench.read<float>(c.y.slice(rows)), bench.read<float>(y)) << e;
      EXPECT_EQ(bench.read<float>(c.dx.slice(rows)), bench.read<float>(dx)) << e;
      EXPECT_EQ(bench.read<float>(c.dweight.slice(block)), bench.read<float>(dw)) << e;
      const std::vector<float> sum = bench.read<float>(added.slice(block));
      const std::vector<float> one = bench.read<float>(dw);
      for (size_t i = 0; i < sum.size(); ++i)
        ASSERT_EQ(sum[i], before[static_cast<size_t>(block.begin * 70) + i] + one[i]) << e;
    }
    for (const float value : bench.read<float>(c.y.slice(at.back(), 97))) EXPECT_EQ(value, 0);
  }
}

TEST(GroupedLinear, AnExpertWithoutRowsHasNoGradient) {
  Workbench bench;
  Case c(bench, {0, 0, 6}, 6, 4, 5, float{});
  c.run(bench, Write::Replace);
  EXPECT_EQ(bench.read<float>(c.dweight.slice(0, 4)), std::vector<float>(20, 0.0F));
}

TEST(GroupedLinear, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Case c(bench, {0, 130, 131, 301}, 301, 65, 130, float{});
    c.run(bench, Write::Add);
    return bytes_of(bench, c.y, c.dx, c.dweight);
  });
}

TEST(GroupedLinear, ReportsOffsetsBeyondTheRows) {
  Workbench bench;
  Case c(bench, {0, 3, 9}, 6, 4, 5, float{});
  c.run(bench, Write::Replace);
  EXPECT_ERROR(bench.stream().check_data(), Internal, "rows 3 to 9 of expert 1, there are 6");
}

TEST(GroupedLinear, RefusesAWeightOfOtherExperts) {
  Workbench bench;
  Case c(bench, {0, 3, 6}, 6, 4, 5, float{});
  EXPECT_ERROR(grouped_linear(bench.stream(), c.y, c.x, bench.empty<float>({12, 5}), c.offsets),
               Usage, "weight is [12, 5], must be [8, 5] for 2 experts");
}

}  // namespace
}  // namespace sextant

#include "ops/sum.h"

#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Sum, ByHandAndAddingOn) {
  Workbench bench;
  const Tensor x = bench.make<float>({2, 2}, {1, -2, 3, 4});
  Tensor out = bench.make<double>({1}, {100});
  sum(bench.stream(), out, x, Write::Replace);
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{6});
  sum_of_squares(bench.stream(), out, std::array{x, bench.make<float>({1}, {3})});
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{39});
  sum_of_squares(bench.stream(), out, {});
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{0});
  sum(bench.stream(), out, bench.empty<float>({0}), Write::Replace);
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{0});
}

// In f32 the ones would be lost beside 2^24 and the squares would overflow.
TEST(Sum, AccumulatesInDouble) {
  Workbench bench;
  std::vector<float> values(100001, 1);
  values[0] = 0x1p30F;
  Tensor out = bench.empty<double>({1});
  sum(bench.stream(), out, bench.make<float>({100001}, values), Write::Replace);
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{0x1p30 + 100000});
  sum_of_squares(bench.stream(), out, std::array{bench.make<float>({2}, {0x1p100F, 0})});
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{0x1p200});
}

TEST(Sum, EveryLengthAroundABlockIsWhole) {
  Workbench bench(2);
  Tensor out = bench.empty<double>({1});
  for (const int64_t count : {1, 7, 8, 9, 16383, 16384, 16385, 49161}) {
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
    const Tensor x = bench.make<double>({count}, values);
    const auto n = static_cast<double>(count);
    sum(bench.stream(), out, x, Write::Replace);
    EXPECT_EQ(bench.read<double>(out)[0], n * (n + 1) / 2) << count;
    sum_of_squares(bench.stream(), out, std::array{x});
    EXPECT_EQ(bench.read<double>(out)[0], n * (n + 1) * (2 * n + 1) / 6) << count;
  }
}

TEST(Sum, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor x = bench.random<float>({200007}, "x");
    Tensor a = bench.empty<double>({1}), b = bench.empty<double>({1});
    sum(bench.stream(), a, x, Write::Replace);
    sum_of_squares(bench.stream(), b, std::array{x});
    return bytes_of(bench, a, b);
  });
}

TEST(Sum, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Tensor out = bench.empty<float>({1}), two = bench.empty<double>({2});
  const Tensor x = bench.empty<float>({3});
  EXPECT_ERROR(sum(bench.stream(), out, x, Write::Replace), Usage,
               "out is f32 [1], must be f64 [1]");
  EXPECT_ERROR(sum_of_squares(bench.stream(), two, {&x, 1}), Usage, "out is f64 [2]");
  Tensor good = bench.empty<double>({1});
  EXPECT_ERROR(sum(bench.stream(), good, bench.empty<int32_t>({3}), Write::Replace), Usage,
               "x is i32 [3]");
  EXPECT_ERROR(sum(bench.stream(), good, x, Write::Chain), Usage, "Chain");
}

}  // namespace
}  // namespace sextant

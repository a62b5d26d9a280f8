#include "ops/linear.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

TEST(Linear, ByHand) {
  Workbench bench;
  const Tensor x = bench.make<float>({2, 2}, {1, 2, 3, 4});
  const Tensor weight = bench.make<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor bias = bench.make<float>({3}, {10, 20, 30});
  Tensor y = bench.empty<float>({2, 3});
  linear(bench.stream(), y, x, weight, {.bias = bias});
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{11, 22, 33, 13, 24, 37}));

  const Tensor dy = bench.make<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor dx = bench.empty<float>({2, 2}), dweight = bench.empty<float>({3, 2});
  Tensor dbias = bench.make<float>({3}, {100, 100, 100});
  linear_backward_input(bench.stream(), dx, dy, weight, {});
  EXPECT_EQ(bench.read<float>(dx), (std::vector<float>{4, 5, 10, 11}));
  linear_backward_weight(bench.stream(), dweight, dbias, dy, x, Write::Replace);
  EXPECT_EQ(bench.read<float>(dweight), (std::vector<float>{13, 18, 17, 24, 21, 30}));
  EXPECT_EQ(bench.read<float>(dbias), (std::vector<float>{5, 7, 9}));
  linear_backward_weight(bench.stream(), dweight, dbias, dy, x, Write::Add);
  EXPECT_EQ(bench.read<float>(dweight), (std::vector<float>{26, 36, 34, 48, 42, 60}));
  EXPECT_EQ(bench.read<float>(dbias), (std::vector<float>{10, 14, 18}));
}

TEST(Linear, GradientsAreThoseOfFiniteDifferences) {
  Workbench bench;
  Stream& stream = bench.stream();
  Tensor x = bench.random<double>({5, 7}, "x"), weight = bench.random<double>({9, 7}, "w");
  Tensor bias = bench.random<double>({9}, "bias");
  const Tensor dy = bench.random<double>({5, 9}, "dy");
  const auto loss = [&] {
    Tensor y = bench.empty<double>({5, 9});
    linear(stream, y, x, weight, {.bias = bias});
    return dot(stream, y, dy);
  };
  Tensor dx = bench.empty<double>({5, 7}), dweight = bench.empty<double>({9, 7});
  Tensor dbias = bench.empty<double>({9});
  linear_backward_input(stream, dx, dy, weight, {});
  linear_backward_weight(stream, dweight, dbias, dy, x, Write::Replace);
  expect_gradient(stream, x, dx, "dx", loss);
  expect_gradient(stream, weight, dweight, "dweight", loss);
  expect_gradient(stream, bias, dbias, "dbias", loss);
}

// y = gelu(x * up^T + bias) * down^T: the backward of `down` goes through the activation.
TEST(Linear, GradientsThroughAnActivationAreThoseOfFiniteDifferences) {
  for (const Activation form : {Activation::GeluTanh, Activation::GeluExact}) {
    Workbench bench;
    Stream& stream = bench.stream();
    Tensor x = bench.random<double>({4, 5}, "x"), up = bench.random<double>({11, 5}, "up");
    Tensor down = bench.random<double>({3, 11}, "down"), bias = bench.random<double>({11}, "bias");
    const Tensor dy = bench.random<double>({4, 3}, "dy");
    Tensor pre = bench.empty<double>({4, 11}), middle = bench.empty<double>({4, 11});
    const auto loss = [&] {
      Tensor y = bench.empty<double>({4, 3});
      linear(stream, middle, x, up, {.activation = form, .bias = bias, .pre_activation = pre});
      linear(stream, y, middle, down, {});
      return dot(stream, y, dy);
    };
    loss();
    Tensor dpre = bench.empty<double>({4, 11}), dx = bench.empty<double>({4, 5});
    Tensor dup = bench.empty<double>({11, 5}), ddown = bench.empty<double>({3, 11});
    Tensor dbias = bench.empty<double>({11}), none;
    linear_backward_weight(stream, ddown, none, dy, middle, Write::Replace);
    linear_backward_input(stream, dpre, dy, down, {.activation = form, .backward_of = pre});
    linear_backward_input(stream, dx, dpre, up, {});
    linear_backward_weight(stream, dup, dbias, dpre, x, Write::Replace);
    expect_gradient(stream, x, dx, "dx", loss);
    expect_gradient(stream, up, dup, "dup", loss);
    expect_gradient(stream, down, ddown, "ddown", loss);
    expect_gradient(stream, bias, dbias, "dbias", loss);
  }
}

TEST(Linear, BitsDoNotDependOnThreads) {
  expect_same_bits([](Workbench& bench) {
    const Tensor x = bench.random<float>({300, 70}, "x"),
                 dy = bench.random<float>({300, 210}, "dy");
    Tensor dweight = bench.random<float>({210, 70}, "dw"), dbias = bench.random<float>({210}, "db");
    linear_backward_weight(bench.stream(), dweight, dbias, dy, x, Write::Add);
    linear_backward_weight(bench.stream(), dweight, dbias, dy, x, Write::Chain);
    return bytes_of(bench, dweight, dbias);
  });
}

// Gradients over two micro-batches, chained, are those of both at once.
TEST(Linear, ChainedWeightGradientsAreThoseOfAllRows) {
  Workbench bench(2);
  Stream& stream = bench.stream();
  const Tensor x = bench.random<float>({101, 37}, "x"), dy = bench.random<float>({101, 83}, "dy");
  Tensor whole = bench.empty<float>({83, 37}), parts = bench.empty<float>({83, 37});
  Tensor whole_bias = bench.empty<float>({83}), parts_bias = bench.empty<float>({83});
  linear_backward_weight(stream, whole, whole_bias, dy, x, Write::Replace);
  linear_backward_weight(stream, parts, parts_bias, dy.slice(0, 40), x.slice(0, 40),
                         Write::Replace);
  linear_backward_weight(stream, parts, parts_bias, dy.slice(40, 101), x.slice(40, 101),
                         Write::Chain);
  EXPECT_EQ(bytes_of(bench, parts, parts_bias), bytes_of(bench, whole, whole_bias));
}

TEST(Linear, RefusesWhatDoesNotFit) {
  Workbench bench;
  const Tensor x = bench.empty<float>({2, 3}), weight = bench.empty<float>({4, 3});
  Tensor y = bench.empty<float>({2, 4}), dbias = bench.empty<float>({3});
  Tensor dweight = bench.empty<float>({4, 3}), dx = bench.empty<float>({2, 4});
  EXPECT_ERROR(linear(bench.stream(), y, x, bench.empty<float>({4, 2}), {}), Usage,
               "b is f32 [4, 2], must be f32 [4, 3]");
  EXPECT_ERROR(linear_backward_input(bench.stream(), dx, y, weight, {}), Usage,
               "c is f32 [2, 4], must be f32 [2, 3]");
  EXPECT_ERROR(linear_backward_weight(bench.stream(), dweight, dbias, y, x, Write::Replace), Usage,
               "dbias is f32 [3], must be f32 [4]");
}

}  // namespace
}  // namespace sextant

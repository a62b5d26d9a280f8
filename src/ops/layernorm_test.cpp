#include "ops/layernorm.h"

#include "ops/add.h"
#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

struct LayerNormCase {
  Tensor x, weight, bias, y, mean, inv_std, dy, dx, dweight, dbias, residual;
};

template <class T>
LayerNormCase make_case(Workbench& bench, int64_t rows, int64_t hidden) {
  return {bench.random<T>({rows, hidden}, "x", 2, 0.5),
          bench.random<T>({hidden}, "weight", 0.3, 1),
          bench.random<T>({hidden}, "bias"),
          bench.empty<T>({rows, hidden}),
          bench.empty<T>({rows}),
          bench.empty<T>({rows}),
          bench.random<T>({rows, hidden}, "dy"),
          bench.random<T>({rows, hidden}, "dx"),
          bench.random<T>({hidden}, "dweight"),
          bench.random<T>({hidden}, "dbias"),
          Tensor()};
}

void forward(Workbench& bench, LayerNormCase& c) {
  layernorm(bench.stream(), c.y, c.mean, c.inv_std, c.x, Tensor(), c.weight, c.bias, 1e-5);
}

void backward(Workbench& bench, LayerNormCase& c, Write write_dw) {
  layernorm_backward(bench.stream(), c.dx, c.dweight, c.dbias, c.dy, c.x, c.mean, c.inv_std,
                     c.weight, c.residual, write_dw);
}

TEST(LayerNorm, HandComputedRow) {
  Workbench bench;
  Tensor x = bench.make<float>({1, 4}, {1, 3, 5, 7});  // mean 4, variance 5
  const Tensor weight = bench.make<float>({4}, {1, 2, 1, 1});
  const Tensor bias = bench.make<float>({4}, {0, 0, 10, 0});
  Tensor y = bench.empty<float>({1, 4}), mean = bench.empty<float>({1});
  Tensor inv_std = bench.empty<float>({1});
  layernorm(bench.stream(), y, mean, inv_std, x, Tensor(), weight, bias, 4);  // sqrt(5 + 4) = 3
  EXPECT_EQ(bench.read<float>(mean), std::vector<float>{4});
  expect_close(bench.read<float>(inv_std), std::vector<float>{1 / 3.0F}, 1e-7);
  expect_close(bench.read<float>(y), std::vector<float>{-1, -2 / 3.0F, 10 + 1 / 3.0F, 1}, 1e-6);
}

TEST(LayerNorm, AddsTheResidualIntoXFirst) {
  Workbench bench;
  for (const int64_t hidden : {1, 5, 64, 77}) {
    LayerNormCase apart = make_case<float>(bench, 9, hidden),
                  c = make_case<float>(bench, 9, hidden);
    const Tensor residual = bench.random<float>({9, hidden}, "residual");
    add(bench.stream(), apart.x, apart.x, residual);
    forward(bench, apart);
    layernorm(bench.stream(), c.y, c.mean, c.inv_std, c.x, residual, c.weight, c.bias, 1e-5);
    EXPECT_EQ(bytes_of(bench, c.x, c.y, c.mean, c.inv_std),
              bytes_of(bench, apart.x, apart.y, apart.mean, apart.inv_std));
  }
}

TEST(LayerNorm, GradientsAreThoseOfFiniteDifferences) {
  for (const int64_t hidden : {1, 5, 13}) {
    Workbench bench;
    LayerNormCase c = make_case<double>(bench, 3, hidden);
    forward(bench, c);
    backward(bench, c, Write::Replace);
    const auto loss = [&] {
      Tensor mean = bench.empty<double>({3}), inv_std = bench.empty<double>({3});
      layernorm(bench.stream(), c.y, mean, inv_std, c.x, Tensor(), c.weight, c.bias, 1e-5);
      return dot(bench.stream(), c.y, c.dy);
    };
    expect_gradient(bench.stream(), c.x, c.dx, "x", loss, 1e-7);
    expect_gradient(bench.stream(), c.weight, c.dweight, "weight", loss);
    expect_gradient(bench.stream(), c.bias, c.dbias, "bias", loss);
  }
}

TEST(LayerNorm, GradientsJoinTheResidualAndWhatTheSumsHold) {
  Workbench bench;
  LayerNormCase replaced = make_case<float>(bench, 70, 19), added = make_case<float>(bench, 70, 19);
  const std::vector<float> dx = bench.read<float>(added.dx);
  const std::vector<float> dweight = bench.read<float>(added.dweight);
  const std::vector<float> dbias = bench.read<float>(added.dbias);
  forward(bench, replaced);
  forward(bench, added);
  backward(bench, replaced, Write::Replace);
  added.residual = added.dx;
  backward(bench, added, Write::Add);
  const auto expect_sum = [&](const Tensor& sum, std::vector<float> before, const Tensor& result) {
    const std::vector<float> values = bench.read<float>(result);
    for (size_t i = 0; i < before.size(); ++i) before[i] += values[i];
    EXPECT_EQ(bench.read<float>(sum), before);
  };
  expect_sum(added.dx, dx, replaced.dx);
  expect_sum(added.dweight, dweight, replaced.dweight);
  expect_sum(added.dbias, dbias, replaced.dbias);
  LayerNormCase apart = make_case<float>(bench, 70, 19);
  apart.residual = bench.make<float>({70, 19}, dx);
  fill_zero(bench.stream(), apart.dx);
  forward(bench, apart);
  backward(bench, apart, Write::Replace);
  EXPECT_EQ(bench.bytes(apart.dx), bench.bytes(added.dx));
  EXPECT_EQ(bench.read<float>(apart.residual), dx);
}

TEST(LayerNorm, FloatsAgreeWithDoubles) {
  Workbench bench(2);
  LayerNormCase f32 = make_case<float>(bench, 200, 771), f64 = make_case<double>(bench, 200, 771);
  for (LayerNormCase* c : {&f32, &f64}) {
    forward(bench, *c);
    backward(bench, *c, Write::Add);
  }
  expect_close(bench.read<float>(f32.y), bench.read<double>(f64.y), 1e-6, "y");
  expect_close(bench.read<float>(f32.dx), bench.read<double>(f64.dx), 1e-6, "dx");
  expect_close(bench.read<float>(f32.dweight), bench.read<double>(f64.dweight), 1e-6, "dweight");
  expect_close(bench.read<float>(f32.dbias), bench.read<double>(f64.dbias), 1e-6, "dbias");
}

TEST(LayerNorm, SumsOverManyRowsAreThoseOfAPlainLoop) {
  Workbench bench(2);
  const int64_t rows = 1500, hidden = 11;
  LayerNormCase c = make_case<double>(bench, rows, hidden);
  forward(bench, c);
  backward(bench, c, Write::Replace);
  const std::vector<double> x = bench.read<double>(c.x), dy = bench.read<double>(c.dy);
  const std::vector<double> mean = bench.read<double>(c.mean), inv = bench.read<double>(c.inv_std);
  std::vector<double> dweight(hidden), dbias(hidden);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / hidden, column = i % hidden;
    dweight[column] += dy[i] * (x[i] - mean[row]) * inv[row];
    dbias[column] += dy[i];
  }
  expect_close(bench.read<double>(c.dweight), dweight, 1e-13, "dweight");
  expect_close(bench.read<double>(c.dbias), dbias, 1e-13, "dbias");
}

TEST(LayerNorm, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    LayerNormCase c = make_case<float>(bench, 333, 130);
    forward(bench, c);
    c.residual = c.dx;
    backward(bench, c, Write::Replace);
    return bytes_of(bench, c.y, c.mean, c.inv_std, c.dx, c.dweight, c.dbias);
  });
}

TEST(LayerNorm, NoRowsGiveZeroGradients) {
  Workbench bench;
  LayerNormCase c = make_case<float>(bench, 0, 4);
  forward(bench, c);
  backward(bench, c, Write::Replace);
  EXPECT_EQ(bench.read<float>(c.dweight), std::vector<float>(4, 0));
}

TEST(LayerNorm, RefusesWrongShapesAndTypes) {
  Workbench bench;
  LayerNormCase c = make_case<float>(bench, 2, 4);
  Tensor good = c.weight;
  c.weight = bench.empty<float>({5});
  EXPECT_ERROR(forward(bench, c), Usage, "weight is f32 [5], must be f32 [4]");
  c.weight = bench.empty<double>({4});
  EXPECT_ERROR(forward(bench, c), Usage, "weight is f64 [4], must be f32 [4]");
  c.weight = good;
  c.mean = bench.empty<float>({3});
  EXPECT_ERROR(forward(bench, c), Usage, "mean is f32 [3], must be f32 [2]");
  c.mean = Tensor();
  EXPECT_ERROR(forward(bench, c), Usage, "mean is empty");
  c = make_case<float>(bench, 2, 4);
  EXPECT_ERROR(backward(bench, c, Write::Chain), Usage, "Chain");
  c.residual = bench.empty<float>({4, 2});
  EXPECT_ERROR(backward(bench, c, Write::Add), Usage, "residual is f32 [4, 2]");
  c.dbias = bench.empty<float>({1, 4});
  EXPECT_ERROR(backward(bench, c, Write::Add), Usage, "dbias is f32 [1, 4]");
  c.x = bench.empty<int32_t>({2, 4});
  EXPECT_ERROR(forward(bench, c), Usage, "x is i32 [2, 4], must be f32, bf16, f16 or f64");
  c.x = bench.empty<float>({8});
  EXPECT_ERROR(forward(bench, c), Usage, "must have 2 dims");
}

}  // namespace
}  // namespace sextant

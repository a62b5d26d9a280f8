#include "ops/rmsnorm.h"

#include "ops/add.h"
#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

struct Case {
  Tensor x, weight, y, inv_rms, dy, dx, dweight, residual;
};

template <class T>
Case make_case(Workbench& bench, int64_t rows, int64_t hidden) {
  return {bench.random<T>({rows, hidden}, "x", 2, 0.5),
          bench.random<T>({hidden}, "weight", 0.3, 1),
          bench.empty<T>({rows, hidden}),
          bench.empty<T>({rows}),
          bench.random<T>({rows, hidden}, "dy"),
          bench.random<T>({rows, hidden}, "dx"),
          bench.random<T>({hidden}, "dweight"),
          Tensor()};
}

void forward(Workbench& bench, Case& c) {
  rmsnorm(bench.stream(), c.y, c.inv_rms, c.x, Tensor(), c.weight, 1e-6);
}

void backward(Workbench& bench, Case& c, Write write_dw) {
  rmsnorm_backward(bench.stream(), c.dx, c.dweight, c.dy, c.x, c.inv_rms, c.weight, c.residual,
                   write_dw);
}

TEST(RmsNorm, HandComputedRow) {
  Workbench bench;
  Tensor x = bench.make<float>({1, 4}, {1, -3, 5, 1});  // mean of squares 9
  const Tensor weight = bench.make<float>({4}, {4, 4, 8, 16});
  Tensor y = bench.empty<float>({1, 4}), inv_rms = bench.empty<float>({1});
  rmsnorm(bench.stream(), y, inv_rms, x, Tensor(), weight, 7);  // sqrt(9 + 7) = 4
  EXPECT_EQ(bench.read<float>(inv_rms), std::vector<float>{0.25F});
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{1, -3, 10, 4}));
}

TEST(RmsNorm, AddsTheResidualIntoXFirst) {
  Workbench bench;
  for (const int64_t hidden : {1, 5, 64, 77}) {
    Case apart = make_case<float>(bench, 9, hidden), c = make_case<float>(bench, 9, hidden);
    const Tensor residual = bench.random<float>({9, hidden}, "residual");
    add(bench.stream(), apart.x, apart.x, residual);
    forward(bench, apart);
    rmsnorm(bench.stream(), c.y, c.inv_rms, c.x, residual, c.weight, 1e-6);
    EXPECT_EQ(bytes_of(bench, c.x, c.y, c.inv_rms),
              bytes_of(bench, apart.x, apart.y, apart.inv_rms));
  }
}

TEST(RmsNorm, GradientsAreThoseOfFiniteDifferences) {
  for (const int64_t hidden : {1, 5, 13}) {
    Workbench bench;
    Case c = make_case<double>(bench, 3, hidden);
    forward(bench, c);
    backward(bench, c, Write::Replace);
    const auto loss = [&] {
      Tensor inv_rms = bench.empty<double>({3});
      rmsnorm(bench.stream(), c.y, inv_rms, c.x, Tensor(), c.weight, 1e-6);
      return dot(bench.stream(), c.y, c.dy);
    };
    expect_gradient(bench.stream(), c.x, c.dx, "x", loss, 1e-7);
    expect_gradient(bench.stream(), c.weight, c.dweight, "weight", loss);
  }
}

TEST(RmsNorm, GradientsJoinTheResidualAndWhatTheSumsHold) {
  Workbench bench;
  Case replaced = make_case<float>(bench, 70, 19), added = make_case<float>(bench, 70, 19);
  std::vector<float> dx = bench.read<float>(added.dx);
  std::vector<float> dweight = bench.read<float>(added.dweight);
  forward(bench, replaced);
  forward(bench, added);
  backward(bench, replaced, Write::Replace);
  added.residual = added.dx;
  backward(bench, added, Write::Add);
  const std::vector<float> result = bench.read<float>(replaced.dx);
  for (size_t i = 0; i < dx.size(); ++i) dx[i] += result[i];
  const std::vector<float> sums = bench.read<float>(replaced.dweight);
  for (size_t i = 0; i < dweight.size(); ++i) dweight[i] += sums[i];
  EXPECT_EQ(bench.read<float>(added.dx), dx);
  EXPECT_EQ(bench.read<float>(added.dweight), dweight);
}

TEST(RmsNorm, FloatsAgreeWithDoubles) {
  Workbench bench(2);
  Case f32 = make_case<float>(bench, 200, 771), f64 = make_case<double>(bench, 200, 771);
  for (Case* c : {&f32, &f64}) {
    forward(bench, *c);
    backward(bench, *c, Write::Add);
  }
  expect_close(bench.read<float>(f32.y), bench.read<double>(f64.y), 1e-6, "y");
  expect_close(bench.read<float>(f32.dx), bench.read<double>(f64.dx), 1e-6, "dx");
  expect_close(bench.read<float>(f32.dweight), bench.read<double>(f64.dweight), 1e-6, "dweight");
}

TEST(RmsNorm, SumsOverManyRowsAreThoseOfAPlainLoop) {
  Workbench bench(2);
  const int64_t rows = 1500, hidden = 11;
  Case c = make_case<double>(bench, rows, hidden);
  forward(bench, c);
  backward(bench, c, Write::Replace);
  const std::vector<double> x = bench.read<double>(c.x), dy = bench.read<double>(c.dy);
  const std::vector<double> inv = bench.read<double>(c.inv_rms);
  std::vector<double> dweight(hidden);
  for (size_t i = 0; i < x.size(); ++i) dweight[i % hidden] += dy[i] * x[i] * inv[i / hidden];
  expect_close(bench.read<double>(c.dweight), dweight, 1e-13, "dweight");
}

TEST(RmsNorm, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    Case c = make_case<float>(bench, 333, 130);
    forward(bench, c);
    c.residual = bench.random<float>({333, 130}, "residual");
    backward(bench, c, Write::Replace);
    return bytes_of(bench, c.y, c.inv_rms, c.dx, c.dweight);
  });
}

TEST(RmsNorm, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Case c = make_case<float>(bench, 2, 4);
  c.weight = bench.empty<float>({5});
  EXPECT_ERROR(forward(bench, c), Usage, "rmsnorm: weight is f32 [5], must be f32 [4]");
  c = make_case<float>(bench, 2, 4);
  c.inv_rms = bench.empty<double>({2});
  EXPECT_ERROR(forward(bench, c), Usage, "inv_rms is f64 [2], must be f32 [2]");
  c = make_case<float>(bench, 2, 4);
  c.dy = bench.empty<float>({4, 2});
  EXPECT_ERROR(backward(bench, c, Write::Add), Usage, "dy is f32 [4, 2]");
  c = make_case<float>(bench, 2, 4);
  c.residual = bench.empty<double>({2, 4});
  EXPECT_ERROR(backward(bench, c, Write::Add), Usage, "residual is f64 [2, 4], must be f32 [2, 4]");
  c.residual = Tensor();
  EXPECT_ERROR(backward(bench, c, Write::Chain), Usage, "Chain");
}

}  // namespace
}  // namespace sextant

#include "ops/head_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr double kHeadNormEps = 1e-6;

TEST(HeadNorm, NormsQueriesAndKeysByHandAndCopiesValues) {
  Workbench bench;
  const Heads heads{1, 1, 2, 1, 2};
  // Heads (3, 4) and (6, 8) as queries, (0, 2) as key: root mean squares 5, 10 and 2 over sqrt 2.
  const Tensor qkv = bench.make<double>({1, 8}, {3, 4, 6, 8, 0, 2, 7, 9});
  const Tensor q_weight = bench.make<double>({2}, {1, 10}),
               k_weight = bench.make<double>({2}, {1, 5});
  Tensor y = bench.empty<double>({1, 8}), inv = bench.empty<double>({1, 3});
  head_norm(bench.stream(), y, inv, qkv, q_weight, k_weight, heads, 0);
  const std::vector<double> got = bench.read<double>(y), scale = bench.read<double>(inv);
  const double root = std::sqrt(2.0);
  const double wanted[] = {0.6 * root, 8 * root, 0.6 * root, 8 * root, 0, 5 * root, 7, 9};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-14) << i;
  EXPECT_NEAR(scale[0], root / 5, 1e-15);
  EXPECT_NEAR(scale[1], root / 10, 1e-15);
  EXPECT_NEAR(scale[2], root / 2, 1e-15);
}

struct HeadNormCase {
  Heads heads;
  Tensor qkv, q_weight, k_weight, y, inv, dy, dqkv, dq_weight, dk_weight;

  template <class T>
  HeadNormCase(Workbench& bench, const Heads& h, T) : heads(h) {
    const Shape shape{h.tokens(), h.qkv_width()};
    qkv = bench.random<T>(shape, "qkv");
    q_weight = bench.random<T>({h.head_dim}, "q_weight", 0.3, 1);
    k_weight = bench.random<T>({h.head_dim}, "k_weight", 0.3, 1);
    dy = bench.random<T>(shape, "dy");
    y = bench.empty<T>(shape);
    dqkv = bench.empty<T>(shape);
    inv = bench.empty<T>({h.tokens(), h.kv_heads * (h.group() + 1)});
    dq_weight = bench.empty<T>({h.head_dim});
    dk_weight = bench.empty<T>({h.head_dim});
  }
  void forward(Workbench& bench) {
    head_norm(bench.stream(), y, inv, qkv, q_weight, k_weight, heads, kHeadNormEps);
  }
  void backward(Workbench& bench, Tensor& dx, Write write) {
    head_norm_backward(bench.stream(), dx, dq_weight, dk_weight, dy, qkv, inv, q_weight, k_weight,
                       heads, write);
  }
};

TEST(HeadNorm, GradientsAreThoseOfFiniteDifferences) {
  Workbench bench;
  HeadNormCase c(bench, {2, 5, 4, 2, 10}, double{});
  c.forward(bench);
  c.backward(bench, c.dqkv, Write::Replace);
  const auto loss = [&] {
    c.forward(bench);
    return dot(bench.stream(), c.y, c.dy);
  };
  expect_gradient(bench.stream(), c.qkv, c.dqkv, "qkv", loss);
  expect_gradient(bench.stream(), c.q_weight, c.dq_weight, "q_weight", loss);
  expect_gradient(bench.stream(), c.k_weight, c.dk_weight, "k_weight", loss);
}

TEST(HeadNorm, FloatFollowsDouble) {
  Workbench bench(2);
  const Heads heads{3, 61, 4, 2, 36};
  HeadNormCase narrow(bench, heads, float{}), wide(bench, heads, double{});
  for (HeadNormCase* c : {&narrow, &wide}) {
    c->forward(bench);
    c->backward(bench, c->dqkv, Write::Replace);
  }
  const auto expect_near = [&](const Tensor& x, const Tensor& y, double tolerance) {
    const std::vector<float> got = bench.read<float>(x);
    const std::vector<double> wanted = bench.read<double>(y);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance) << i;
  };
  expect_near(narrow.y, wide.y, 1e-5);
  expect_near(narrow.dqkv, wide.dqkv, 2e-5);
  expect_near(narrow.dq_weight, wide.dq_weight, 2e-4);
  expect_near(narrow.dk_weight, wide.dk_weight, 2e-4);
}

TEST(HeadNorm, GradientMayReplaceItsInputAndWeightsMayAddUp) {
  Workbench bench;
  HeadNormCase c(bench, {1, 40, 2, 1, 12}, double{});
  c.forward(bench);
  c.backward(bench, c.dqkv, Write::Replace);
  const std::vector<double> dq = bench.read<double>(c.dq_weight),
                            dk = bench.read<double>(c.dk_weight);
  const std::vector<double> dqkv = bench.read<double>(c.dqkv);
  c.backward(bench, c.dy, Write::Add);
  EXPECT_EQ(bench.read<double>(c.dy), dqkv);
  const std::vector<double> dq2 = bench.read<double>(c.dq_weight),
                            dk2 = bench.read<double>(c.dk_weight);
  for (size_t i = 0; i < dq.size(); ++i) {
    EXPECT_EQ(dq2[i], 2 * dq[i]);
    EXPECT_EQ(dk2[i], 2 * dk[i]);
  }
}

TEST(HeadNorm, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<std::vector<std::byte>> first;
  for (const int threads : {1, 2, 3}) {
    Workbench bench(threads);
    HeadNormCase c(bench, {3, 100, 4, 2, 24}, float{});
    c.forward(bench);
    c.backward(bench, c.dqkv, Write::Replace);
    const std::vector<std::vector<std::byte>> bits = {bench.bytes(c.y), bench.bytes(c.inv),
                                                      bench.bytes(c.dqkv), bench.bytes(c.dq_weight),
                                                      bench.bytes(c.dk_weight)};
    if (threads == 1) first = bits;
    EXPECT_EQ(bits, first) << threads << " threads";
  }
}

TEST(HeadNorm, RefusesWhatDoesNotFitTogether) {
  Workbench bench;
  const Heads heads{1, 3, 2, 1, 8};
  HeadNormCase good(bench, heads, float{});
  const auto with = [&](Tensor HeadNormCase::*member, const Shape& shape) {
    HeadNormCase c = good;
    c.*member = bench.empty<float>(shape);
    c.forward(bench);
    c.backward(bench, c.dqkv, Write::Replace);
  };
  EXPECT_ERROR(with(&HeadNormCase::qkv, {3, 31}), Usage, "head_norm: qkv is f32 [3, 31]");
  EXPECT_ERROR(with(&HeadNormCase::y, {3, 31}), Usage, "y is");
  EXPECT_ERROR(with(&HeadNormCase::inv, {3, 2}), Usage, "must be f32 [3, 3]");
  EXPECT_ERROR(with(&HeadNormCase::q_weight, {7}), Usage, "q_weight is");
  EXPECT_ERROR(with(&HeadNormCase::k_weight, {7}), Usage, "k_weight is");
  EXPECT_ERROR(with(&HeadNormCase::dy, {3, 31}), Usage, "dy is");
  EXPECT_ERROR(with(&HeadNormCase::dqkv, {3, 31}), Usage, "dqkv is");
  EXPECT_ERROR(with(&HeadNormCase::dq_weight, {7}), Usage, "dq_weight is");
  EXPECT_ERROR(with(&HeadNormCase::dk_weight, {7}), Usage, "dk_weight is");
  good.forward(bench);
  EXPECT_ERROR(good.backward(bench, good.dqkv, Write::Chain), Usage, "Chain");
}

}  // namespace
}  // namespace sextant

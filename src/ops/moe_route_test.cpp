#include "ops/moe_route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

struct Routed {
  Tensor choice, gates, counts;
};

template <class F>
Routed route(Workbench& bench, const Tensor& logits, int64_t chosen, const Routing& routing,
             const Tensor& bias = {}) {
  Routed out{bench.empty<int32_t>({logits.dim(0), chosen}), bench.empty<F>({logits.dim(0), chosen}),
             bench.empty<int32_t>({logits.dim(1)})};
  moe_route(bench.stream(), out.choice, out.gates, out.counts, logits, bias, routing);
  return out;
}

using Ints = std::vector<int32_t>;

TEST(MoeRoute, ChoosesTheLargestLogitsByHand) {
  Workbench bench;
  const double log2 = std::log(2.0), log3 = std::log(3.0);
  // Softmax over all four: (1, 3, 2, 1) / 7 and (2, 2, 1, 1) / 6, the equal ones by expert.
  const Tensor logits = bench.make<double>({2, 4}, {0, log3, log2, 0, log2, log2, 0, 0});
  const Routed after = route<double>(bench, logits, 2, {Router::SoftmaxAfter});
  EXPECT_EQ(bench.read<int32_t>(after.choice), (Ints{1, 2, 0, 1}));
  EXPECT_EQ(bench.read<int32_t>(after.counts), (Ints{1, 2, 1, 0}));
  expect_close(bench.read<double>(after.gates), std::vector<double>{0.6, 0.4, 0.5, 0.5}, 1e-15);
  const Routed before = route<double>(bench, logits, 2, {Router::SoftmaxBefore});
  EXPECT_EQ(bench.read<int32_t>(before.choice), (Ints{1, 2, 0, 1}));
  expect_close(bench.read<double>(before.gates),
               std::vector<double>{3 / 7.0, 2 / 7.0, 2 / 6.0, 2 / 6.0}, 1e-15);
  const Routed balanced = route<double>(bench, logits, 2, {Router::Balanced});
  EXPECT_EQ(bench.read<int32_t>(balanced.choice), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(bench.read<int32_t>(balanced.counts), (Ints{1, 1, 1, 1}));
  expect_close(bench.read<double>(balanced.gates), std::vector<double>{0.25, 0.75, 0.5, 0.5},
               1e-15);
}

TEST(MoeRoute, LogitsThatAreNotNumbersChooseDistinctExperts) {
  Workbench bench;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = bench.make<float>({1, 3}, {nan, nan, nan});
  EXPECT_EQ(bench.read<int32_t>(route<float>(bench, logits, 3, {Router::SoftmaxAfter}).choice),
            (Ints{0, 1, 2}));
}

TEST(MoeRoute, GradientsAreThoseOfFiniteDifferences) {
  for (const Router router : {Router::SoftmaxAfter, Router::SoftmaxBefore, Router::Balanced}) {
    Workbench bench;
    Tensor logits = bench.random<double>({5, 6}, "logits", 2);
    const Tensor dgates = bench.random<double>({5, 3}, "dgates");
    const Routed routed = route<double>(bench, logits, 3, {router});
    Tensor dlogits = bench.empty<double>({5, 6});
    moe_route_backward(bench.stream(), dlogits, dgates, routed.choice, logits, {router});
    expect_gradient(bench.stream(), logits, dlogits, "logits", [&] {
      return dot(bench.stream(), route<double>(bench, logits, 3, {router}).gates, dgates);
    });
  }
}

TEST(MoeRoute, LossesOfAUniformRouterAreOneAndTheSquareOfItsLogSum) {
  Workbench bench;
  const Tensor logits = bench.make<double>({4, 2}, std::vector<double>(8, 0));
  const Tensor counts = bench.make<int32_t>({2}, {2, 2});
  Tensor sums = bench.make<double>({4}, {0, 10, 5, 0});
  moe_losses(bench.stream(), sums, logits, counts, counts, {4, 1}, Router::SoftmaxAfter);
  const double lse = std::log(2.0);
  expect_close(bench.read<double>(sums), std::vector<double>{1, 10 + lse * lse, 7, 2}, 1e-15);
}

TEST(MoeRoute, LossesByHand) {
  Workbench bench;
  const double log3 = std::log(3.0);
  // Probabilities (3, 1) / 4 for both tokens; all choose expert 0: 2 * (1 * 3/4 + 0 * 1/4).
  const Tensor logits = bench.make<double>({2, 2}, {log3, 0, log3, 0});
  Tensor sums = bench.make<double>({4}, {0, 0, 0, 0});
  const Tensor counts = bench.make<int32_t>({2}, {2, 0});
  moe_losses(bench.stream(), sums, logits, counts, counts, {2, 1}, Router::SoftmaxAfter);
  const double lse = std::log(4.0);
  expect_close(bench.read<double>(sums), std::vector<double>{1.5, lse * lse, 2, 0}, 1e-15);
}

// Counts are constants of the loss; a rank has 7 of the unit's 20 tokens.
TEST(MoeRoute, LossGradientsAreThoseOfFiniteDifferences) {
  for (const Router router : {Router::SoftmaxAfter, Router::Sigmoid}) {
    Workbench bench;
    Tensor logits = bench.random<double>({7, 5}, "logits", 2);
    const Tensor counts = bench.make<int32_t>({5}, {20, 3, 0, 10, 7});
    const Tensor scale = bench.make<double>({1}, {0.5});
    const RouterUnit unit{20, 2};
    Tensor dlogits = bench.make<double>({7, 5}, std::vector<double>(35, 0));
    moe_losses_backward(bench.stream(), dlogits, logits, counts, unit, {0.3, 0.7}, scale, router);
    expect_gradient(bench.stream(), logits, dlogits, "logits", [&] {
      Tensor sums = bench.make<double>({7}, std::vector<double>(7, 0));
      moe_losses(bench.stream(), sums, logits, counts, counts, unit, router);
      const std::vector<double> losses = bench.read<double>(sums);
      return 0.5 * (0.3 * losses[0] + 0.7 * losses[1]);
    });
  }
}

// E f = 1 + error / (1 * 4): 1.5 and 0.5 with the probabilities (3, 1) / 4.
TEST(MoeRoute, ALoadErrorTakesThePlaceOfCounts) {
  Workbench bench;
  Tensor logits = bench.make<double>({2, 2}, {std::log(3.0), 0, std::log(3.0), 0});
  const Tensor error = bench.make<double>({2}, {2, -2});
  const Tensor own = bench.make<int32_t>({2}, {2, 0});
  const RouterUnit unit{.tokens = 2, .chosen = 1, .load_tokens = 4};
  const auto losses = [&] {
    Tensor sums = bench.make<double>({4}, {0, 0, 0, 0});
    moe_losses(bench.stream(), sums, logits, error, own, unit, Router::SoftmaxAfter);
    return bench.read<double>(sums);
  };
  EXPECT_NEAR(losses()[0], 1.5 * 0.75 + 0.5 * 0.25, 1e-15);
  Tensor dlogits = bench.make<double>({2, 2}, {0, 0, 0, 0});
  moe_losses_backward(bench.stream(), dlogits, logits, error, unit, {0.3, 0.7},
                      bench.make<double>({1}, {0.5}), Router::SoftmaxAfter);
  expect_gradient(bench.stream(), logits, dlogits, "logits",
                  [&] { return 0.5 * (0.3 * losses()[0] + 0.7 * losses()[1]); });
}

double logit_of(double score) {
  return std::log(score / (1 - score));
}

TEST(MoeRoute, ABiasChangesTheSigmoidChoiceButNotTheGates) {
  Workbench bench;
  const Tensor logits =
      bench.make<double>({1, 4}, {logit_of(0.8), logit_of(0.6), logit_of(0.2), logit_of(0.4)});
  const Tensor none = bench.make<double>({4}, {0, 0, 0, 0});
  const Routed plain = route<double>(bench, logits, 2, {Router::Sigmoid}, none);
  EXPECT_EQ(bench.read<int32_t>(plain.choice), (Ints{0, 1}));
  expect_close(bench.read<double>(plain.gates), std::vector<double>{0.8 / 1.4, 0.6 / 1.4}, 1e-15);
  const Tensor bias = bench.make<double>({4}, {-0.5, 0, 0.5, 0});
  const Routing scaled{.router = Router::Sigmoid, .scale = 2.5};
  const Routed biased = route<double>(bench, logits, 2, scaled, bias);
  EXPECT_EQ(bench.read<int32_t>(biased.choice), (Ints{2, 1}));
  expect_close(bench.read<double>(biased.gates),
               std::vector<double>{2.5 * 0.2 / 0.8, 2.5 * 0.6 / 0.8}, 1e-15);
  const Routing raw{.router = Router::Sigmoid, .normalize = false, .scale = 2};
  expect_close(bench.read<double>(route<double>(bench, logits, 2, raw, bias).gates),
               std::vector<double>{0.4, 1.2}, 1e-15);
}

// Groups (0 1) (2 3) (4 5): the sums of scores are 1.0, 1.1 and 0.9. The best expert is in a group
// that is not chosen; all biased scores of the chosen groups are negative.
TEST(MoeRoute, OnlyExpertsOfTheBestGroupsAreChosen) {
  Workbench bench;
  const Tensor logits = bench.make<double>({1, 6}, {logit_of(0.5), logit_of(0.5), logit_of(0.6),
                                                    logit_of(0.5), logit_of(0.85), logit_of(0.05)});
  const Tensor bias = bench.make<double>({6}, {-1, -1, -1, -1, -1, -1});
  const Routing routing{.router = Router::Sigmoid, .groups = 3, .groups_chosen = 2};
  const Routed routed = route<double>(bench, logits, 3, routing, bias);
  EXPECT_EQ(bench.read<int32_t>(routed.choice), (Ints{2, 0, 1}));
  EXPECT_ERROR(route<double>(bench, logits, 5, routing, bias), Usage,
               "2 of 3 groups chosen for 5 experts");
}

TEST(MoeRoute, SigmoidGradientsAreThoseOfFiniteDifferences) {
  for (const bool normalize : {true, false}) {
    Workbench bench;
    const Routing routing{.router = Router::Sigmoid,
                          .groups = 2,
                          .groups_chosen = 1,
                          .normalize = normalize,
                          .scale = 2.5};
    Tensor logits = bench.random<double>({5, 8}, "logits", 2);
    const Tensor bias = bench.random<double>({8}, "bias", 0.1);
    const Tensor dgates = bench.random<double>({5, 3}, "dgates");
    const Routed routed = route<double>(bench, logits, 3, routing, bias);
    Tensor dlogits = bench.empty<double>({5, 8});
    moe_route_backward(bench.stream(), dlogits, dgates, routed.choice, logits, routing);
    expect_gradient(bench.stream(), logits, dlogits, "logits", [&] {
      return dot(bench.stream(), route<double>(bench, logits, 3, routing, bias).gates, dgates);
    });
  }
}

TEST(MoeRoute, OneNormalizedChoiceHasNoGradient) {
  for (const Router router : {Router::Sigmoid, Router::SoftmaxAfter}) {
    Workbench bench;
    const Routing routing{.router = router};
    const Tensor logits = bench.random<float>({200, 8}, "logits", 2);
    const Tensor dgates = bench.random<float>({200, 1}, "dgates");
    const Routed routed =
        route<float>(bench, logits, 1, routing, bench.random<float>({8}, "bias", 0.1));
    Tensor dlogits = bench.empty<float>({200, 8});
    moe_route_backward(bench.stream(), dlogits, dgates, routed.choice, logits, routing);
    EXPECT_EQ(bench.read<float>(dlogits), std::vector<float>(200 * 8, 0));
  }
}

TEST(MoeRoute, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor logits = bench.random<float>({701, 16}, "logits");
    const Tensor dgates = bench.random<float>({701, 4}, "dgates");
    const Routed routed = route<float>(bench, logits, 4, {Router::SoftmaxAfter});
    Tensor dlogits = bench.empty<float>({701, 16}),
           sums = bench.make<double>({18}, std::vector<double>(18, 0));
    moe_route_backward(bench.stream(), dlogits, dgates, routed.choice, logits,
                       {Router::SoftmaxAfter});
    moe_losses(bench.stream(), sums, logits, routed.counts, routed.counts, {701, 4},
               Router::SoftmaxAfter);
    moe_losses_backward(bench.stream(), dlogits, logits, routed.counts, {701, 4}, {1e-2, 1e-3},
                        bench.make<double>({1}, {1}), Router::SoftmaxAfter);
    return bytes_of(bench, routed.choice, routed.gates, routed.counts, dlogits, sums);
  });
}

TEST(MoeRoute, RefusesMoreChoicesThanExperts) {
  Workbench bench;
  const Tensor logits = bench.empty<float>({3, 2});
  EXPECT_ERROR(route<float>(bench, logits, 3, {Router::SoftmaxAfter}), Usage,
               "3 of 2 experts chosen, must be 1 to 2");
}

}  // namespace
}  // namespace sextant

#include "ops/latent_heads.h"

#include <gtest/gtest.h>

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr LatentHeads kHeads{.tokens = 3, .heads = 2, .nope = 2, .rope = 4, .value = 3};

struct Parts {
  Tensor q, kv, k_rope, positions, cos, sin;

  LatentHeads heads = kHeads;

  explicit Parts(Workbench& bench)
      : q(bench.random<double>({3, 12}, "q")),
        kv(bench.random<double>({3, 10}, "kv")),
        k_rope(bench.random<double>({3, 4}, "k_rope")),
        positions(bench.make<int32_t>({3}, {0, 1, 2})),
        cos(bench.random<double>({3, 2}, "cos")),
        sin(bench.random<double>({3, 2}, "sin")) {}
  Tensor join(Workbench& bench) const {
    Tensor qkv = bench.empty<double>({3, 36});
    join_latent_heads(bench.stream(), qkv, q, kv, k_rope, positions, cos, sin, heads);
    return qkv;
  }
};

// One head of one column without positions, two that are rotated by a right angle, one value;
// queries are doubled.
TEST(LatentHeads, JoinByHand) {
  Workbench bench;
  Tensor qkv = bench.empty<double>({1, 9});
  join_latent_heads(bench.stream(), qkv, bench.make<double>({1, 3}, {1, 2, 3}),
                    bench.make<double>({1, 2}, {4, 5}), bench.make<double>({1, 2}, {6, 7}),
                    bench.make<int32_t>({1}, {1}), bench.make<double>({2, 1}, {1, 0}),
                    bench.make<double>({2, 1}, {0, 1}), {1, 1, 1, 2, 1, 2});
  EXPECT_EQ(bench.read<double>(qkv), (std::vector<double>{2, -6, 4, 4, -7, 6, 5, 0, 0}));
}

TEST(LatentHeads, GradientsAreThoseOfFiniteDifferences) {
  Workbench bench;
  Parts parts(bench);
  parts.heads.query_scale = 1.7;
  const Tensor dqkv = bench.random<double>({3, 36}, "dqkv");
  Tensor dq = bench.empty<double>({3, 12}), dkv = bench.empty<double>({3, 10}),
         dk_rope = bench.empty<double>({3, 4});
  join_latent_heads_backward(bench.stream(), dq, dkv, dk_rope, dqkv, parts.positions, parts.cos,
                             parts.sin, parts.heads);
  const auto loss = [&] { return dot(bench.stream(), parts.join(bench), dqkv); };
  expect_gradient(bench.stream(), parts.q, dq, "q", loss);
  expect_gradient(bench.stream(), parts.kv, dkv, "kv", loss);
  expect_gradient(bench.stream(), parts.k_rope, dk_rope, "k_rope", loss);
}

TEST(LatentHeads, ValuesAreTakenAndFilledUpWithZeros) {
  Workbench bench;
  const LatentHeads heads{.tokens = 1, .heads = 2, .nope = 1, .rope = 2, .value = 2};
  Tensor values = bench.empty<float>({1, 4}), filled = bench.empty<float>({1, 6});
  take_values(bench.stream(), values, bench.make<float>({1, 6}, {1, 2, 9, 3, 4, 9}), heads);
  EXPECT_EQ(bench.read<float>(values), (std::vector<float>{1, 2, 3, 4}));
  fill_values(bench.stream(), filled, values, heads);
  EXPECT_EQ(bench.read<float>(filled), (std::vector<float>{1, 2, 0, 3, 4, 0}));
}

TEST(LatentHeads, APositionOutsideOfTheTableIsReported) {
  Workbench bench;
  Parts parts(bench);
  parts.positions = bench.make<int32_t>({3}, {0, 3, 1});
  parts.join(bench);
  EXPECT_ERROR(bench.stream().check_data(), Usage, "join_latent_heads: ");
}

}  // namespace
}  // namespace sextant

#include "bench/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/attention_unfused.h"
#include "ops/attention.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// Advances time per turn, so that nothing is really measured.
class TickingClock final : public Clock {
 public:
  double now() const override { return seconds_ += 0.25; }
  double wall() const override { return 0; }

 private:
  mutable double seconds_ = 0;
};

// Copies from the op's fused qkv rows to separate heads.
void spread(const std::vector<float>& rows, const Heads& h, std::vector<float>& q,
            std::vector<float>& k, std::vector<float>& v) {
  const int64_t group = h.group(), dim = h.head_dim;
  for (int64_t row = 0; row < h.batch; ++row)
    for (int64_t kv = 0; kv < h.kv_heads; ++kv)
      for (int64_t token = 0; token < h.seq; ++token) {
        const float* from = &rows[(row * h.seq + token) * h.qkv_width() + kv * (group + 2) * dim];
        const auto put = [&](std::vector<float>& to, int64_t stack, const float* head) {
          std::copy_n(head, dim, to.begin() + (stack * h.seq + token) * dim);
        };
        for (int64_t i = 0; i < group; ++i) put(q, row * h.heads + kv * group + i, from + i * dim);
        put(k, row * h.kv_heads + kv, from + group * dim);
        put(v, row * h.kv_heads + kv, from + (group + 1) * dim);
      }
}

void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5) << i;
}

TEST(BenchAttention, TheUnfusedFormComputesWhatTheTiledOneDoes) {
  Workbench bench(2);
  const Heads h{2, 70, 4, 2, 16};
  const Tensor qkv = bench.random<float>({h.tokens(), h.qkv_width()}, "qkv");
  const Tensor dout = bench.random<float>({h.tokens(), h.out_width()}, "dout");
  Tensor out = bench.empty<float>(dout.shape()), dqkv = bench.empty<float>(qkv.shape());
  Tensor lse = bench.empty<float>({h.batch, h.heads, h.seq});
  const Tensor starts = bench.make<int32_t>({h.batch, h.seq}, std::vector<int32_t>(h.tokens(), 0));
  attention(bench.stream(), out, lse, qkv, starts, h);
  attention_backward(bench.stream(), dqkv, dout, out, lse, qkv, starts, h);

  UnfusedAttention unfused(bench.stream(), h);
  std::vector<float> q(unfused.q.elements()), k(unfused.k.elements()), v(unfused.v.elements());
  spread(bench.read<float>(qkv), h, q, k, v);
  copy_from_host<float>(bench.stream(), unfused.q, q);
  copy_from_host<float>(bench.stream(), unfused.k, k);
  copy_from_host<float>(bench.stream(), unfused.v, v);
  const auto by_head = [&](const Tensor& rows) {  // [batch, seq, heads, dim] to heads first
    const std::vector<float> from = bench.read<float>(rows);
    std::vector<float> to(from.size());
    for (int64_t row = 0; row < h.batch; ++row)
      for (int64_t token = 0; token < h.seq; ++token)
        for (int64_t head = 0; head < h.heads; ++head)
          std::copy_n(from.begin() + ((row * h.seq + token) * h.heads + head) * h.head_dim,
                      h.head_dim,
                      to.begin() + ((row * h.heads + head) * h.seq + token) * h.head_dim);
    return to;
  };
  copy_from_host<float>(bench.stream(), unfused.dout, by_head(dout));
  unfused.forward();
  unfused.backward();
  expect_close(bench.read<float>(unfused.out), by_head(out));
  spread(bench.read<float>(dqkv), h, q, k, v);
  expect_close(bench.read<float>(unfused.dq), q);
  expect_close(bench.read<float>(unfused.dk), k);
  expect_close(bench.read<float>(unfused.dv), v);
}

TEST(BenchAttention, CountsOnlyThePairsThatAreSeen) {
  const AttentionShape shape{"tiny", {2, 3, 4, 2, 8}};
  EXPECT_EQ(shape.forward_flops(), 4.0 * 8 * 6 * 8);  // 8 heads in total, 6 pairs, width 8
  EXPECT_EQ(shape.backward_flops(), 10.0 * 8 * 6 * 8);
  EXPECT_EQ(shape.forward_bytes(), 4.0 * (6 * 64 + 6 * 32 + 6 * 4));
  EXPECT_EQ(shape.unfused_forward_bytes(), 4.0 * (6 * 64 + 6 * 32 + 4 * 8 * 9));
}

TEST(BenchAttention, RowsHoldBothFormsAndTheLimit) {
  AttentionOptions options;
  options.shapes = {{"small", {1, 200, 2, 1, 16}}};
  options.threads = {1, 2};
  options.repeats = 2;
  const std::vector<AttentionRow> rows = bench_attention(options, TickingClock());
  ASSERT_EQ(rows.size(), 2u);
  for (const AttentionRow& row : rows) {
    EXPECT_DOUBLE_EQ(row.tiled.forward_gflops, row.shape.forward_flops() / 0.25 / 1e9);
    EXPECT_DOUBLE_EQ(row.unfused.backward_gflops, row.shape.backward_flops() / 0.25 / 1e9);
    EXPECT_GT(row.limit_gflops, 0);
    EXPECT_GT(row.ridge, 0);
    EXPECT_GT(row.tiled.forward_flops_per_byte, row.unfused.forward_flops_per_byte);
    // Unfused has the probabilities of both heads and one matrix of gradients; tiled has lse and
    // starts.
    EXPECT_EQ(row.unfused.peak_bytes - row.tiled.peak_bytes, 4 * (3 * 200 * 200 - 200 * 3));
  }
  EXPECT_EQ(rows[1].threads, 2);
}

TEST(BenchAttention, RefusesNoRepeats) {
  AttentionOptions options;
  options.repeats = 0;
  EXPECT_ERROR(bench_attention(options, TickingClock()), Usage, "repeats=0");
}

}  // namespace
}  // namespace sextant

#include <gtest/gtest.h>

#include "ops/attention.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// Rows begin ... end of every row of the batch: [batch * seq, width] to [batch * (end - begin),
// width].
template <class T>
Tensor tokens_of(Workbench& bench, const Tensor& x, const Heads& heads, int64_t begin,
                 int64_t end) {
  Tensor out = bench.empty<T>({heads.batch * (end - begin), x.dim(1)});
  for (int64_t row = 0; row < heads.batch; ++row) {
    Tensor to = out.slice(row * (end - begin), (row + 1) * (end - begin));
    copy(bench.stream(), to, x.slice(row * heads.seq + begin, row * heads.seq + end));
  }
  return out;
}

// Feeds the tokens in steps of the given sizes; every step's rows must be those of attention over
// all of them.
template <class T>
void expect_like_whole(const Heads& heads, const std::vector<int64_t>& steps, int threads,
                       double tolerance) {
  Workbench bench(threads);
  const Tensor qkv = bench.random<T>({heads.tokens(), heads.qkv_width()}, "qkv", 1.5);
  Tensor whole = bench.empty<T>({heads.tokens(), heads.out_width()});
  Tensor lse = bench.empty<T>({heads.batch, heads.heads, heads.seq});
  const Tensor starts =
      bench.make<int32_t>({heads.batch, heads.seq}, std::vector<int32_t>(heads.tokens(), 0));
  attention(bench.stream(), whole, lse, qkv, starts, heads);

  const Shape cache{heads.batch, heads.kv_heads, heads.seq + 3, heads.head_dim};
  Tensor keys = bench.random<T>(cache, "stale"), values = bench.random<T>(cache, "stale");
  int64_t past = 0;
  for (const int64_t step : steps) {
    Heads now = heads;
    now.seq = step;
    Tensor out = bench.empty<T>({now.tokens(), now.out_width()});
    attention_cached(bench.stream(), out, keys, values,
                     tokens_of<T>(bench, qkv, heads, past, past + step), past, now);
    const std::vector<T> got = bench.read<T>(out);
    const std::vector<T> wanted =
        bench.read<T>(tokens_of<T>(bench, whole, heads, past, past + step));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], tolerance) << "past=" << past << " element " << i;
    past += step;
  }
}

TEST(AttentionCached, TokensOneByOneEqualTheWholeSequence) {
  expect_like_whole<float>({2, 130, 4, 2, 32}, std::vector<int64_t>(130, 1), 1, 5e-6);
  expect_like_whole<float>({1, 100, 6, 1, 20}, std::vector<int64_t>(100, 1), 3, 5e-6);
  expect_like_whole<double>({2, 20, 2, 2, 10}, std::vector<int64_t>(20, 1), 2, 1e-13);
}

TEST(AttentionCached, APromptThenTokensEqualTheWholeSequence) {
  expect_like_whole<float>({2, 203, 4, 1, 64}, {150, 1, 1, 50, 1}, 2, 5e-6);
  expect_like_whole<double>({1, 110, 2, 1, 16}, {7, 1, 100, 2}, 1, 1e-13);
}

TEST(AttentionCached, AWindowEndsAtEachNewToken) {
  for (const int64_t window : {1, 7, 96, 140}) {
    expect_like_whole<float>({2, 130, 4, 2, 32, window}, std::vector<int64_t>(130, 1), 1, 5e-6);
    expect_like_whole<float>({2, 203, 4, 1, 64, window}, {150, 1, 1, 50, 1}, 2, 5e-6);
    expect_like_whole<double>({1, 110, 2, 1, 16, window}, {7, 1, 100, 2}, 1, 1e-13);
  }
}

TEST(AttentionCached, AnyNumberOfThreadsGivesTheSameBits) {
  const Heads one{2, 1, 4, 2, 24};
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3}) {
    Workbench bench(threads);
    Tensor keys = bench.random<float>({2, 2, 200, 24}, "keys");
    Tensor values = bench.random<float>({2, 2, 200, 24}, "values");
    const Tensor qkv = bench.random<float>({2, one.qkv_width()}, "qkv");
    Tensor out = bench.empty<float>({2, one.out_width()});
    attention_cached(bench.stream(), out, keys, values, qkv, 150, one);
    if (threads == 1) first = bench.bytes(out);
    EXPECT_EQ(bench.bytes(out), first) << threads << " threads";
  }
}

TEST(AttentionCached, RefusesWhatDoesNotFitTheCache) {
  Workbench bench;
  Stream& stream = bench.stream();
  const Heads heads{1, 2, 2, 1, 8};
  const Tensor qkv = bench.random<float>({2, 32}, "qkv");
  Tensor out = bench.empty<float>({2, 16}), narrow = bench.empty<float>({2, 8});
  Tensor keys = bench.empty<float>({1, 1, 4, 8}), values = bench.empty<float>({1, 1, 4, 8});
  Tensor other = bench.empty<float>({1, 2, 4, 8});
  EXPECT_ERROR(attention_cached(stream, out, keys, values, qkv, 3, heads), Usage, "capacity of 4");
  EXPECT_ERROR(attention_cached(stream, out, keys, values, qkv, -1, heads), Usage, "past=-1");
  EXPECT_ERROR(attention_cached(stream, out, other, values, qkv, 0, heads), Usage, "keys is");
  EXPECT_ERROR(attention_cached(stream, out, keys, other, qkv, 0, heads), Usage, "values is");
  EXPECT_ERROR(attention_cached(stream, out, narrow, values, qkv, 0, heads), Usage, "4 dims");
  EXPECT_ERROR(attention_cached(stream, narrow, keys, values, qkv, 0, heads), Usage, "out is");
}

}  // namespace
}  // namespace sextant

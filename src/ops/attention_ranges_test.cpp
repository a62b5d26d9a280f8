#include "ops/attention_ranges.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/attention.h"
#include "ops/pack_kv.h"
#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/key_ranges.h"
#include "support/naive_attention.h"

namespace sextant {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
struct Case {
  Heads heads;
  int64_t kv_seq;
  Bounds bounds;
  Tensor qkv, kv, dout, begin, end, out, lse, delta, dqkv, dkv;

  Case(Workbench& bench, const Heads& h, int64_t keys, Bounds b)
      : heads(h), kv_seq(keys), bounds(std::move(b)) {
    qkv = bench.random<T>({h.tokens(), h.qkv_width()}, "qkv", 1.5);
    kv = bench.random<T>({h.batch * keys, h.kv_width()}, "kv", 1.5);
    dout = bench.random<T>({h.tokens(), h.out_width()}, "dout");
    begin = bench.make<int32_t>({h.batch, h.seq}, bounds.begin);
    end = bench.make<int32_t>({h.batch, h.seq}, bounds.end);
    out = stale(bench, {h.tokens(), h.out_width()});
    lse = stale(bench, {h.batch, h.heads, h.seq});
    delta = stale(bench, {h.batch, h.heads, h.seq});
    dqkv = stale(bench, {h.tokens(), h.qkv_width()});
    dkv = stale(bench, kv.shape());
  }
  // Outputs begin as NaN, so that nothing of what they held may be read.
  static Tensor stale(Workbench& bench, const Shape& shape) {
    return bench.make<T>(shape, std::vector<T>(shape.elements(), std::nan("")));
  }
  void forward(Workbench& bench) {
    attention_ranges(bench.stream(), out, lse, qkv, kv, begin, end, heads, kv_seq);
  }
  void backward(Workbench& bench, Write dq = Write::Replace, Write dk = Write::Replace) {
    attention_delta(bench.stream(), delta, dout, out, heads);
    attention_ranges_backward(bench.stream(), dqkv, dkv, dout, delta, lse, qkv, kv, begin, end,
                              heads, kv_seq, dq, dk);
  }
  std::vector<T> dq(Workbench& bench) const { return queries_of(bench.read<T>(dqkv), heads); }
  NaiveAttention naive(Workbench& bench) const {
    const auto wide = [&](const Tensor& x) {
      const std::vector<T> values = bench.read<T>(x);
      return std::vector<double>(values.begin(), values.end());
    };
    NaiveAttention n{heads, wide(qkv), bounds.begin, {}, {}, {}, bounds.end, wide(kv), {}, kv_seq};
    n.forward();
    n.backward(wide(dout));
    return n;
  }
};

// -infinity where it must be, the others within tolerance.
template <class T>
void expect_lse(std::vector<T> got, std::vector<double> wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i] == -kInfinity, wanted[i] == -kInfinity) << "lse element " << i;
    if (wanted[i] == -kInfinity) got[i] = 0, wanted[i] = 0;
  }
  expect_close(got, wanted, tolerance, "lse");
}

template <class T>
void expect_like_naive(const Heads& heads, int64_t kv_seq, uint64_t seed, int threads,
                       double tolerance) {
  SCOPED_TRACE(concat("batch=", heads.batch, " seq=", heads.seq, " kv_seq=", kv_seq,
                      " heads=", heads.heads, " head_dim=", heads.head_dim, " seed=", seed));
  Workbench bench(threads);
  Case<T> c(bench, heads, kv_seq, random_bounds(heads, kv_seq, seed));
  c.forward(bench);
  c.backward(bench);
  const NaiveAttention naive = c.naive(bench);
  expect_close(bench.read<T>(c.out), naive.out, tolerance, "out");
  expect_lse(bench.read<T>(c.lse), naive.lse, tolerance);
  expect_close(c.dq(bench), queries_of(naive.dqkv, heads), tolerance, "dq");
  expect_close(bench.read<T>(c.dkv), naive.dkv, tolerance, "dkv");
}

TEST(AttentionRanges, TwoKeysAndAnEmptyRangeByHand) {
  Workbench bench;
  // Width 2, scores 0 and ln 3: weights 1/4 and 3/4. The first query sees neither key.
  const double a = std::log(3.0) * std::sqrt(2.0);
  const Tensor qkv = bench.make<double>({2, 6}, {5, 7, 0, 0, 0, 0, 0, a, 0, 0, 0, 0});
  const Tensor kv = bench.make<double>({2, 4}, {1, 0, 10, 20, 9, 1, 30, 40});
  const Tensor begin = bench.make<int32_t>({1, 2}, {0, 0}),
               end = bench.make<int32_t>({1, 2}, {0, 2});
  Tensor out = bench.empty<double>({2, 2}), lse = bench.empty<double>({1, 1, 2});
  attention_ranges(bench.stream(), out, lse, qkv, kv, begin, end, {1, 2, 1, 1, 2}, 2);
  const std::vector<double> o = bench.read<double>(out), l = bench.read<double>(lse);
  EXPECT_EQ(o[0], 0);
  EXPECT_EQ(o[1], 0);
  EXPECT_NEAR(o[2], 0.25 * 10 + 0.75 * 30, 1e-12);
  EXPECT_NEAR(o[3], 0.25 * 20 + 0.75 * 40, 1e-12);
  EXPECT_EQ(l[0], -kInfinity);
  EXPECT_NEAR(l[1], std::log(4.0), 1e-12);
}

TEST(AttentionRanges, EqualsTheFormulaOverManyShapes) {
  const std::pair<Heads, int64_t> shapes[] = {
      {{1, 2, 1, 1, 8}, 3},     {{2, 5, 2, 1, 8}, 40},     {{1, 47, 2, 2, 16}, 13},
      {{2, 49, 4, 1, 24}, 200}, {{1, 100, 1, 1, 64}, 97},  {{1, 145, 4, 2, 40}, 300},
      {{2, 97, 2, 1, 10}, 96},  {{1, 60, 2, 1, 128}, 500}, {{1, 300, 1, 1, 34}, 150}};
  for (const auto& [heads, kv_seq] : shapes)
    for (const uint64_t seed : {1, 2}) {
      expect_like_naive<float>(heads, kv_seq, seed, 1, 3e-6);
      expect_like_naive<double>(heads, kv_seq, seed, 1, 1e-13);
      expect_like_naive<float>(heads, kv_seq, seed, 4, 3e-6);
    }
}

// The keys of a row in blocks, as a ring brings them: forward merged, backward with the lse of all.
template <class T>
void expect_blocks_like_whole(int threads, int64_t block, double tolerance) {
  Workbench bench(threads);
  const Heads heads{2, 250, 4, 2, 24};
  const std::vector<int32_t> starts = random_starts(heads, 120, 9);
  Case<T> whole(bench, heads, heads.seq, causal_bounds(starts, heads, 0, heads.seq));
  whole.forward(bench);
  whole.backward(bench);
  Case<T> sum(bench, heads, heads.seq, whole.bounds);
  const std::vector<T> kv = bench.read<T>(whole.kv);
  const auto rows_of = [&](int64_t first, int64_t count) {
    std::vector<T> part;
    for (int64_t row = 0; row < heads.batch; ++row) {
      const auto from = kv.begin() + (row * heads.seq + first) * heads.kv_width();
      part.insert(part.end(), from, from + count * heads.kv_width());
    }
    return part;
  };
  std::vector<Case<T>> parts;
  for (int64_t first = 0; first < heads.seq; first += block) {
    const int64_t count = std::min(block, heads.seq - first);
    parts.emplace_back(bench, heads, count, causal_bounds(starts, heads, first, count));
    Case<T>& part = parts.back();
    part.kv = bench.make<T>({heads.batch * count, heads.kv_width()}, rows_of(first, count));
    part.forward(bench);
    if (first == 0) {
      copy(bench.stream(), sum.out, part.out);
      copy(bench.stream(), sum.lse, part.lse);
    } else {
      attention_merge(bench.stream(), sum.out, sum.lse, part.out, part.lse);
    }
  }
  expect_close(bench.read<T>(sum.out), bench.read<T>(whole.out), tolerance, "out");
  expect_close(bench.read<T>(sum.lse), bench.read<T>(whole.lse), tolerance, "lse");
  std::vector<T> dkv(kv.size());
  int64_t first = 0;
  for (Case<T>& part : parts) {
    part.out = sum.out;
    part.lse = sum.lse;
    part.dqkv = sum.dqkv;
    part.backward(bench, first == 0 ? Write::Replace : Write::Chain);
    const std::vector<T> got = bench.read<T>(part.dkv);
    const int64_t size = part.kv_seq * heads.kv_width();
    for (int64_t row = 0; row < heads.batch; ++row)
      std::copy_n(got.begin() + row * size, size,
                  dkv.begin() + (row * heads.seq + first) * heads.kv_width());
    first += part.kv_seq;
  }
  expect_close(sum.dq(bench), whole.dq(bench), 2 * tolerance, "dq");
  expect_close(dkv, bench.read<T>(whole.dkv), 2 * tolerance, "dkv");
}

TEST(AttentionRanges, BlocksOfKeysAddUpToTheWhole) {
  for (const int64_t block : {32, 96, 125}) {
    expect_blocks_like_whole<float>(1, block, 2e-6);
    expect_blocks_like_whole<double>(2, block, 1e-13);
  }
}

TEST(AttentionRanges, GradientsOfAlignedBlocksGoOnWithTheBitsOfTheWhole) {
  Workbench bench;
  const Heads heads{1, 200, 2, 1, 16};
  const std::vector<int32_t> starts(200, 0);
  Case<float> whole(bench, heads, 200, causal_bounds(starts, heads, 0, 200));
  whole.forward(bench);
  whole.backward(bench);
  Tensor dqkv = Case<float>::stale(bench, whole.qkv.shape());
  for (int64_t first = 0; first < 200; first += kKeysTogether) {
    const int64_t count = std::min(kKeysTogether, 200 - first);
    Case<float> part(bench, heads, count, causal_bounds(starts, heads, first, count));
    part.kv = whole.kv.slice(first, first + count);
    part.out = whole.out;
    part.lse = whole.lse;
    part.dqkv = dqkv;
    part.backward(bench, first == 0 ? Write::Replace : Write::Chain);
    EXPECT_EQ(bench.bytes(part.dkv), bench.bytes(whole.dkv.slice(first, first + count)));
  }
  EXPECT_EQ(bench.bytes(dqkv), bench.bytes(whole.dqkv));
}

TEST(AttentionRanges, GradientsOfKeysAddToThoseOfOtherQueries) {
  Workbench bench;
  const Heads heads{1, 60, 2, 1, 8};
  Case<double> c(bench, heads, 130, random_bounds(heads, 130, 4));
  c.forward(bench);
  c.backward(bench);
  const std::vector<double> once = bench.read<double>(c.dkv);
  const Tensor start = bench.random<double>(c.kv.shape(), "start");
  copy(bench.stream(), c.dkv, start);
  c.backward(bench, Write::Replace, Write::Add);
  std::vector<double> wanted = bench.read<double>(start);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += once[i];
  EXPECT_EQ(bench.read<double>(c.dkv), wanted);
}

TEST(AttentionRanges, TheSameRangesGiveTheBitsOfAttention) {
  for (const int threads : {1, 3}) {
    Workbench bench(threads);
    const Heads heads{2, 230, 4, 2, 40};
    const std::vector<int32_t> starts = random_starts(heads, 70, 6);
    Case<float> c(bench, heads, heads.seq, causal_bounds(starts, heads, 0, heads.seq));
    pack_kv(bench.stream(), c.kv, c.qkv, heads);
    c.forward(bench);
    c.backward(bench);
    Tensor out = bench.empty<float>(c.out.shape()), lse = bench.empty<float>(c.lse.shape());
    Tensor dqkv = bench.empty<float>(c.qkv.shape());
    const Tensor begins = bench.make<int32_t>({heads.batch, heads.seq}, starts);
    attention(bench.stream(), out, lse, c.qkv, begins, heads);
    attention_backward(bench.stream(), dqkv, c.dout, out, lse, c.qkv, begins, heads);
    unpack_kv(bench.stream(), c.dqkv, c.dkv, heads);
    EXPECT_EQ(bench.bytes(c.out), bench.bytes(out));
    EXPECT_EQ(bench.bytes(c.lse), bench.bytes(lse));
    EXPECT_EQ(bench.bytes(c.dqkv), bench.bytes(dqkv));
  }
}

TEST(AttentionRanges, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  const Heads heads{2, 6, 4, 2, 6};
  Case<double> c(bench, heads, 9, random_bounds(heads, 9, 8));
  c.forward(bench);
  fill_zero(bench.stream(), c.dqkv);
  c.backward(bench);
  const auto loss = [&] {
    c.forward(bench);
    return dot(bench.stream(), c.out, c.dout);
  };
  expect_gradient(bench.stream(), c.kv, c.dkv, "kv", loss);
  expect_gradient(bench.stream(), c.qkv, c.dqkv, "qkv", loss);  // 0 for unread keys and values
}

TEST(AttentionRanges, QueriesThatSeeNothingHaveNoGradient) {
  Workbench bench(2);
  const Heads heads{1, 130, 1, 1, 8};
  Case<float> c(bench, heads, 50, {std::vector<int32_t>(130, 50), std::vector<int32_t>(130, 50)});
  c.forward(bench);
  c.backward(bench);
  EXPECT_EQ(bench.read<float>(c.out), std::vector<float>(130 * 8, 0));
  EXPECT_EQ(c.dq(bench), std::vector<float>(130 * 8, 0));
  EXPECT_TRUE(std::isnan(bench.read<float>(c.dqkv)[8])) << "the column of a key was written";
  EXPECT_EQ(bench.read<float>(c.dkv), std::vector<float>(50 * 16, 0));
  for (const float l : bench.read<float>(c.lse)) EXPECT_EQ(l, -kInfinity);
}

TEST(AttentionRanges, MergeKeepsTheRowsThatOnlyOnePartSaw) {
  Workbench bench;
  const float none = -static_cast<float>(kInfinity);
  // Two tokens of two heads of width 2; lse is by head, then token.
  Tensor out = bench.make<float>({2, 4}, {1, 2, 0, 0, 0, 0, 4, 8});
  Tensor lse = bench.make<float>({1, 2, 2}, {0.5F, none, none, 0});
  const Tensor out_b = bench.make<float>({2, 4}, {NAN, NAN, 7, 9, 0, 0, 8, 0});
  const Tensor lse_b = bench.make<float>({1, 2, 2}, {none, none, 2.5F, std::log(3.0F)});
  attention_merge(bench.stream(), out, lse, out_b, lse_b);
  const std::vector<float> o = bench.read<float>(out), l = bench.read<float>(lse);
  EXPECT_EQ(std::vector<float>(o.begin(), o.begin() + 6), (std::vector<float>{1, 2, 7, 9, 0, 0}));
  EXPECT_NEAR(o[6], 0.25 * 4 + 0.75 * 8, 1e-6);
  EXPECT_NEAR(o[7], 0.25 * 8, 1e-6);
  EXPECT_EQ(std::vector<float>(l.begin(), l.begin() + 3), (std::vector<float>{0.5F, none, 2.5F}));
  EXPECT_NEAR(l[3], std::log(4.0), 1e-6);
}

TEST(AttentionRanges, BitsDoNotDependOnThreadsOrDevice) {
  for (const Heads& heads : {Heads{1, 400, 2, 1, 48}, Heads{3, 100, 6, 3, 24}})
    expect_same_bits([&](Workbench& bench) {
      Case<float> c(bench, heads, 350, random_bounds(heads, 350, 1));
      c.forward(bench);
      c.backward(bench);
      c.backward(bench, Write::Chain, Write::Add);
      Tensor other = bench.random<float>(c.out.shape(), "other");
      Tensor other_lse = bench.random<float>(c.lse.shape(), "other_lse");
      attention_merge(bench.stream(), other, other_lse, c.out, c.lse);
      return bytes_of(bench, c.out, c.lse, c.delta, c.dqkv, c.dkv, other, other_lse);
    });
}

TEST(AttentionRanges, TakesNoMemoryBeyondItsTensors) {
  Workbench bench(2);
  const Heads heads{1, 500, 1, 1, 16};
  Case<float> c(bench, heads, 600, random_bounds(heads, 600, 1));
  const int64_t allocations = bench.arena().allocations();
  c.forward(bench);
  c.backward(bench);
  EXPECT_EQ(bench.arena().allocations(), allocations);
}

TEST(AttentionRanges, RefusesWhatDoesNotFitTogether) {
  Workbench bench;
  Stream& stream = bench.stream();
  const Heads heads{1, 4, 2, 1, 8};
  Case<float> c(bench, heads, 6, causal_bounds(std::vector<int32_t>(4, 0), heads, 0, 6));
  Tensor wrong = bench.empty<float>({4, 15}), wide = bench.empty<double>({1, 2, 4});
  const auto run = [&](Tensor& out, Tensor& lse, const Tensor& kv, int64_t kv_seq) {
    attention_ranges(stream, out, lse, c.qkv, kv, c.begin, c.end, heads, kv_seq);
  };
  EXPECT_ERROR(run(wrong, c.lse, c.kv, 6), Usage, "attention_ranges: out is f32 [4, 15]");
  EXPECT_ERROR(run(c.out, wide, c.kv, 6), Usage, "lse is f64");
  EXPECT_ERROR(run(c.out, c.lse, c.kv, 5), Usage, "kv is f32 [6, 16], must be f32 [5, 16]");
  EXPECT_ERROR(run(c.out, c.lse, c.kv, 0), Usage, "kv_seq=0");
  const auto back = [&](Tensor& dqkv, Tensor& dkv, Write dq, Write dk) {
    attention_ranges_backward(stream, dqkv, dkv, c.dout, c.delta, c.lse, c.qkv, c.kv, c.begin,
                              c.end, heads, 6, dq, dk);
  };
  const Write replace = Write::Replace;
  EXPECT_ERROR(back(wrong, c.dkv, replace, replace), Usage, "dqkv is f32 [4, 15]");
  EXPECT_ERROR(back(c.dqkv, wrong, replace, replace), Usage, "dkv is f32 [4, 15]");
  EXPECT_ERROR(back(c.qkv, c.dkv, replace, replace), Usage, "dqkv is qkv");
  EXPECT_ERROR(back(c.dqkv, c.kv, replace, replace), Usage, "dkv is kv");
  EXPECT_ERROR(back(c.dqkv, c.dkv, Write::Add, replace), Usage, "Write::Add is not possible");
  EXPECT_ERROR(back(c.dqkv, c.dkv, replace, Write::Chain), Usage, "Write::Chain is not possible");
  EXPECT_ERROR(attention_delta(stream, c.delta, wrong, c.out, heads), Usage, "dout is f32 [4, 15]");
  EXPECT_ERROR(attention_merge(stream, wrong, c.lse, c.out, c.lse), Usage, "[batch * seq,");
  EXPECT_ERROR(attention_merge(stream, c.out, c.lse, c.out, wide), Usage, "lse_b is f64");
}

}  // namespace
}  // namespace sextant

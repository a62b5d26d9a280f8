#include "ops/attention.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gradient_check.h"
#include "support/naive_attention.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// One call of attention and its backward on random values.
template <class T>
struct AttentionCase {
  Heads heads;
  std::vector<int32_t> starts;
  Tensor qkv, dout, out, lse, dqkv, starts_tensor;

  AttentionCase(Workbench& bench, const Heads& h, std::vector<int32_t> s)
      : heads(h), starts(std::move(s)) {
    qkv = bench.random<T>({h.tokens(), h.qkv_width()}, "qkv", 1.5);
    dout = bench.random<T>({h.tokens(), h.out_width()}, "dout");
    out = stale(bench, {h.tokens(), h.out_width()});
    lse = stale(bench, {h.batch, h.heads, h.seq});
    dqkv = stale(bench, {h.tokens(), h.qkv_width()});
    starts_tensor = bench.make<int32_t>({h.batch, h.seq}, starts);
  }
  // Outputs begin as NaN, so that nothing of what they held may be read.
  static Tensor stale(Workbench& bench, const Shape& shape) {
    return bench.make<T>(shape, std::vector<T>(shape.elements(), std::nan("")));
  }
  void forward(Workbench& bench) { attention(bench.stream(), out, lse, qkv, starts_tensor, heads); }
  void backward(Workbench& bench) {
    attention_backward(bench.stream(), dqkv, dout, out, lse, qkv, starts_tensor, heads);
  }
  NaiveAttention naive(Workbench& bench) {
    const auto wide = [&](const Tensor& x) {
      const std::vector<T> values = bench.read<T>(x);
      return std::vector<double>(values.begin(), values.end());
    };
    NaiveAttention n{heads, wide(qkv), starts, {}, {}, {}};
    n.forward();
    n.backward(wide(dout));
    return n;
  }
};

template <class T>
void expect_near_largest(const std::vector<T>& got, const std::vector<double>& wanted,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1e-3, error = 0;
  size_t worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i << ": " << got[i];
    largest = std::max(largest, std::abs(wanted[i]));
    const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
    if (difference > error) worst = i, error = difference;
  }
  EXPECT_LE(error, tolerance * largest)
      << what << " element " << worst << ": " << got[worst] << " instead of " << wanted[worst];
}

template <class T>
void expect_like_naive(const Heads& heads, int document, int threads, double tolerance) {
  Workbench bench(threads);
  const std::vector<int32_t> starts =
      document == 0 ? std::vector<int32_t>(heads.tokens(), 0) : random_starts(heads, document, 7);
  AttentionCase<T> c(bench, heads, starts);
  c.forward(bench);
  c.backward(bench);
  const NaiveAttention naive = c.naive(bench);
  const std::string what =
      concat(" batch=", heads.batch, " seq=", heads.seq, " heads=", heads.heads,
             " kv_heads=", heads.kv_heads, " head_dim=", heads.head_dim, " document=", document);
  expect_near_largest(bench.read<T>(c.out), naive.out, tolerance, "out" + what);
  expect_near_largest(bench.read<T>(c.lse), naive.lse, tolerance, "lse" + what);
  expect_near_largest(bench.read<T>(c.dqkv), naive.dqkv, tolerance, "dqkv" + what);
}

TEST(Attention, WeighsTwoTokensByHand) {
  Workbench bench;
  // One head of width 2. Token 1 has scores 0 and ln 3 for keys 0 and 1: weights 1/4 and 3/4.
  const double a = std::log(3.0) * std::sqrt(2.0);
  Tensor qkv = bench.make<double>({2, 6}, {5, 7, 1, 0, 10, 20,  //
                                           0, a, 9, 1, 30, 40});
  Tensor out = bench.empty<double>({2, 2}), lse = bench.empty<double>({1, 1, 2});
  const Tensor starts = bench.make<int32_t>({1, 2}, {0, 0});
  attention(bench.stream(), out, lse, qkv, starts, {1, 2, 1, 1, 2});
  const std::vector<double> o = bench.read<double>(out), l = bench.read<double>(lse);
  EXPECT_DOUBLE_EQ(o[0], 10);
  EXPECT_DOUBLE_EQ(o[1], 20);
  EXPECT_NEAR(o[2], 0.25 * 10 + 0.75 * 30, 1e-12);
  EXPECT_NEAR(o[3], 0.25 * 20 + 0.75 * 40, 1e-12);
  EXPECT_NEAR(l[0], 5 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(l[1], std::log(4.0), 1e-12);
}

TEST(Attention, EqualsTheFormulaOverManyShapes) {
  const Heads shapes[] = {{1, 1, 1, 1, 8},    {2, 5, 2, 1, 8},    {1, 47, 2, 2, 16},
                          {3, 49, 4, 1, 24},  {1, 96, 1, 1, 64},  {2, 97, 8, 1, 40},
                          {1, 145, 4, 2, 64}, {2, 191, 2, 1, 10}, {1, 300, 2, 1, 128},
                          {1, 389, 1, 1, 34}};
  for (const Heads& heads : shapes)
    for (const int document : {0, 1, 20, 90}) {
      expect_like_naive<float>(heads, document, 1, 2e-6);
      expect_like_naive<double>(heads, document, 1, 1e-13);
    }
}

TEST(Attention, EqualsTheFormulaWhenTilesAreSharedAmongThreads) {
  for (const int document : {0, 30, 150}) {
    expect_like_naive<float>({1, 400, 2, 1, 32}, document, 4, 2e-6);
    expect_like_naive<double>({1, 200, 2, 1, 32}, document, 4, 1e-13);
  }
}

// Windows of one key, within a tile, across tiles, and wider than the row.
TEST(Attention, EqualsTheFormulaInAWindow) {
  for (const int64_t window : {1, 5, 95, 96, 130, 500})
    for (const int document : {0, 40}) {
      expect_like_naive<float>({2, 207, 4, 2, 24, window}, document, 1, 2e-6);
      expect_like_naive<double>({1, 300, 2, 1, 16, window}, document, 3, 1e-13);
    }
}

TEST(Attention, AWindowAsLongAsTheRowGivesTheBitsOfNone) {
  Workbench bench;
  const Heads none{2, 150, 4, 2, 32};
  const std::vector<int32_t> starts = random_starts(none, 60, 4);
  std::vector<std::vector<std::byte>> bits;
  for (const int64_t window : {0, 150}) {
    Heads heads = none;
    heads.window = window;
    AttentionCase<float> c(bench, heads, starts);
    c.forward(bench);
    c.backward(bench);
    bits.push_back(bench.bytes(c.out));
    bits.push_back(bench.bytes(c.dqkv));
  }
  EXPECT_EQ(bits[0], bits[2]);
  EXPECT_EQ(bits[1], bits[3]);
}

TEST(Attention, SurvivesScoresOfAnySize) {
  Workbench bench;
  const Heads heads{1, 120, 1, 1, 16};
  AttentionCase<float> c(bench, heads, random_starts(heads, 50, 3));
  std::vector<float> qkv = bench.read<float>(c.qkv);
  for (float& x : qkv) x *= 100;
  copy_from_host<float>(bench.stream(), c.qkv, qkv);
  c.forward(bench);
  c.backward(bench);
  const NaiveAttention naive = c.naive(bench);
  expect_near_largest(bench.read<float>(c.lse), naive.lse, 2e-6, "lse");
  for (const float x : bench.read<float>(c.dqkv)) ASSERT_TRUE(std::isfinite(x));
}

TEST(Attention, PackedDocumentsEqualSeparateOnes) {
  Workbench bench;
  const int64_t lengths[] = {1, 70, 33, 96, 50};
  const Heads packed{1, 250, 4, 2, 32};
  std::vector<int32_t> starts;
  for (const int64_t length : lengths)
    starts.insert(starts.end(), length, static_cast<int32_t>(starts.size()));
  AttentionCase<double> all(bench, packed, starts);
  all.forward(bench);
  all.backward(bench);
  const std::vector<double> out = bench.read<double>(all.out), dqkv = bench.read<double>(all.dqkv);
  int64_t first = 0;
  for (const int64_t length : lengths) {
    Heads heads = packed;
    heads.seq = length;
    AttentionCase<double> one(bench, heads, std::vector<int32_t>(length, 0));
    copy(bench.stream(), one.qkv, all.qkv.slice(first, first + length));
    copy(bench.stream(), one.dout, all.dout.slice(first, first + length));
    one.forward(bench);
    one.backward(bench);
    const auto part = [&](const std::vector<double>& x, int64_t width) {
      return std::vector<double>(x.begin() + first * width, x.begin() + (first + length) * width);
    };
    expect_near_largest(bench.read<double>(one.out), part(out, packed.out_width()), 1e-13, "out");
    expect_near_largest(bench.read<double>(one.dqkv), part(dqkv, packed.qkv_width()), 1e-13,
                        "dqkv");
    first += length;
  }
}

TEST(Attention, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  for (const int64_t window : {0, 3}) {
    const Heads heads{2, 7, 4, 2, 6, window};
    AttentionCase<double> c(bench, heads, random_starts(heads, 3, 5));
    c.forward(bench);
    c.backward(bench);
    expect_gradient(bench.stream(), c.qkv, c.dqkv, "qkv", [&] {
      c.forward(bench);
      return dot(bench.stream(), c.out, c.dout);
    });
  }
}

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  // Few groups, so that one thread goes the way of whole groups and more threads that of tiles.
  for (const Heads& heads :
       {Heads{1, 500, 2, 1, 64}, Heads{3, 130, 6, 3, 40}, Heads{1, 400, 2, 1, 32, 70}}) {
    std::vector<std::vector<std::byte>> first;
    for (const int threads : {1, 2, 3, 5}) {
      Workbench bench(threads);
      AttentionCase<float> c(bench, heads, random_starts(heads, 200, 1));
      c.forward(bench);
      c.backward(bench);
      const std::vector<std::vector<std::byte>> bits = {bench.bytes(c.out), bench.bytes(c.lse),
                                                        bench.bytes(c.dqkv)};
      if (threads == 1) first = bits;
      EXPECT_EQ(bits, first) << threads << " threads";
    }
  }
}

TEST(Attention, ARowOfTheBatchHasTheBitsItHasAlone) {
  Workbench bench;
  const Heads heads{3, 150, 2, 1, 48};
  AttentionCase<float> all(bench, heads, random_starts(heads, 60, 2));
  all.forward(bench);
  all.backward(bench);
  for (int64_t row = 0; row < heads.batch; ++row) {
    const int64_t begin = row * heads.seq, end = begin + heads.seq;
    Heads single = heads;
    single.batch = 1;
    AttentionCase<float> one(bench, single, {all.starts.begin() + begin, all.starts.begin() + end});
    copy(bench.stream(), one.qkv, all.qkv.slice(begin, end));
    copy(bench.stream(), one.dout, all.dout.slice(begin, end));
    one.forward(bench);
    one.backward(bench);
    EXPECT_EQ(bench.bytes(one.out), bench.bytes(all.out.slice(begin, end)));
    EXPECT_EQ(bench.bytes(one.dqkv), bench.bytes(all.dqkv.slice(begin, end)));
  }
}

TEST(Attention, TakesNoMemoryBeyondItsTensors) {
  Workbench bench(2);
  const Heads heads{1, 2000, 1, 1, 16};
  AttentionCase<float> c(bench, heads, std::vector<int32_t>(heads.tokens(), 0));
  bench.arena().reset_peaks();
  const int64_t before = bench.arena().peak(), allocations = bench.arena().allocations();
  c.forward(bench);
  c.backward(bench);
  EXPECT_EQ(bench.arena().peak(), before);
  EXPECT_EQ(bench.arena().allocations(), allocations);
}

TEST(Attention, WorksOnAGuardedDevice) {
  Workbench bench(2, DeviceKind::Guarded);
  const Heads heads{1, 20, 2, 1, 8};
  AttentionCase<float> c(bench, heads, std::vector<int32_t>(heads.tokens(), 0));
  c.forward(bench);
  c.backward(bench);
  const NaiveAttention naive = c.naive(bench);
  expect_near_largest(bench.read<float>(c.out), naive.out, 2e-6, "out");
}

TEST(Attention, RefusesWhatDoesNotFitTogether) {
  Workbench bench;
  Stream& stream = bench.stream();
  const Heads heads{2, 4, 4, 2, 8};
  AttentionCase<float> c(bench, heads, std::vector<int32_t>(8, 0));
  const auto with = [&](auto change) {
    Heads changed = heads;
    change(changed);
    attention(stream, c.out, c.lse, c.qkv, c.starts_tensor, changed);
  };
  EXPECT_ERROR(with([](Heads& h) { h.kv_heads = 3; }), Usage, "multiple of kv_heads");
  EXPECT_ERROR(with([](Heads& h) { h.head_dim = 7; }), Usage, "head_dim=7");
  EXPECT_ERROR(with([](Heads& h) { h.head_dim = 512; }), Usage, "at most 256");
  EXPECT_ERROR(with([](Heads& h) { h.seq = 0; }), Usage, "seq=0");
  EXPECT_ERROR(with([](Heads& h) { h.seq = 5; }), Usage, "must be f32 [10, 64]");
  Tensor wrong = bench.empty<float>({8, 31}), wide = bench.empty<double>({2, 4, 4});
  EXPECT_ERROR(attention(stream, wrong, c.lse, c.qkv, c.starts_tensor, heads), Usage, "out is");
  EXPECT_ERROR(attention(stream, c.out, wide, c.qkv, c.starts_tensor, heads), Usage, "lse is f64");
  EXPECT_ERROR(attention(stream, c.out, c.lse, c.qkv, c.lse, heads), Usage, "starts is");
  EXPECT_ERROR(
      attention_backward(stream, wrong, c.dout, c.out, c.lse, c.qkv, c.starts_tensor, heads), Usage,
      "dqkv is");
  EXPECT_ERROR(
      attention_backward(stream, c.dqkv, wrong, c.out, c.lse, c.qkv, c.starts_tensor, heads), Usage,
      "dout is");
  EXPECT_ERROR(
      attention_backward(stream, c.qkv, c.dout, c.out, c.lse, c.qkv, c.starts_tensor, heads), Usage,
      "dqkv is qkv");
}

TEST(Attention, ReportsStartsThatComeLaterOrGoBackAndClampsThem) {
  Workbench bench(1, DeviceKind::Guarded);
  const Heads heads{2, 4, 1, 1, 8};
  const auto results = [&](const std::vector<int32_t>& starts) {
    AttentionCase<float> c(bench, heads, starts);
    c.forward(bench);
    c.backward(bench);
    return std::vector{bench.bytes(c.out), bench.bytes(c.lse), bench.bytes(c.dqkv)};
  };
  const auto expect_bad = [&](const std::vector<int32_t>& starts,
                              const std::vector<int32_t>& clamped, const std::string& text) {
    EXPECT_EQ(results(starts), results(clamped)) << text;
    EXPECT_ERROR(bench.stream().check_data(), Usage, "attention: " + text);
    bench.stream().check_data();
  };
  expect_bad({0, 2, 2, 2, 0, 0, 0, 0}, {0, 1, 2, 2, 0, 0, 0, 0},
             "token 1 of row 0 starts at 2, must be between the start of the token before and 1");
  expect_bad({0, 0, 0, 0, 0, 1, 0, 9}, {0, 0, 0, 0, 0, 1, 1, 3},
             "token 2 of row 1 starts at 0, must be between the start of the token before and 2");
  expect_bad({-1, 0, 0, -9, -5, 1 << 30, 0, 0}, {0, 0, 0, 0, 0, 1, 1, 1},
             "token 0 of row 0 starts at -1");
}

TEST(Attention, BackwardReportsStartsToo) {
  Workbench bench;
  AttentionCase<float> c(bench, {1, 4, 1, 1, 8}, {0, 0, 0, 0});
  c.forward(bench);
  c.starts_tensor = bench.make<int32_t>({1, 4}, {-1, 0, 0, 0});
  c.backward(bench);
  EXPECT_ERROR(bench.stream().check_data(), Usage, "starts at -1");
}

}  // namespace
}  // namespace sextant

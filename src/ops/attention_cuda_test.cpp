// Attention on a GPU against the CPU's f64 kernels on the same inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "ops/attention.h"
#include "ops/attention_ranges.h"
#include "support/expect_error.h"
#include "support/key_ranges.h"
#include "support/naive_attention.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

template <class T>
double wide(T x) {
  if constexpr (kIsNarrow<T>)
    return widen(x);
  else
    return x;
}

template <class T>
T narrow(double x) {
  if constexpr (kIsNarrow<T>)
    return round_nearest<T>(x);
  else
    return static_cast<T>(x);
}

// Normal values that T can hold.
template <class T>
Values random_values(int64_t count, std::string_view name, double scale = 1) {
  const Random random(1, name);
  Values out;
  for (int64_t i = 0; i < count; ++i) out.push_back(wide(narrow<T>(scale * random.normal(i))));
  return out;
}

template <class T>
Tensor upload(Workbench& bench, const Shape& shape, const Values& values) {
  std::vector<T> narrowed;
  for (const double value : values) narrowed.push_back(narrow<T>(value));
  return bench.make<T>(shape, narrowed);
}

template <class T>
Values download(Workbench& bench, const Tensor& tensor) {
  Values out;
  for (const T value : bench.read<T>(tensor)) out.push_back(wide(value));
  return out;
}

Values download(Workbench& bench, const Tensor& tensor) {
  Values out;
  with_floating(tensor.dtype(), [&]<class T>(T) { out = download<T>(bench, tensor); });
  return out;
}

// Outputs begin as NaN, so that nothing of what they held may be read.
template <class T>
Tensor stale(Workbench& bench, const Shape& shape) {
  return upload<T>(bench, shape, Values(shape.elements(), std::nan("")));
}

double norm_of_difference(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// f32: within a few roundings of the largest value. Narrow types, which also round the
// probabilities and dS: within a few times the error of rounding the result itself, by norm.
template <class T>
void expect_close(const Values& got, const Values& wanted, std::string_view what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1e-3;
  Values rounded;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i << ": " << got[i];
    largest = std::max(largest, std::abs(wanted[i]));
    rounded.push_back(wide(narrow<T>(wanted[i])));
  }
  if constexpr (kIsNarrow<T>) {
    const double noise = std::sqrt(static_cast<double>(got.size())) * 1e-6 * largest;
    EXPECT_LE(norm_of_difference(got, wanted), 5 * norm_of_difference(rounded, wanted) + noise)
        << what;
    return;
  }
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 4e-6 * largest) << what << " element " << i;
}

// lse is f32 whatever T is; -infinity where it must be.
void expect_lse(const Values& got, const Values& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (wanted[i] == -kInfinity)
      ASSERT_EQ(got[i], -kInfinity) << "lse element " << i;
    else
      ASSERT_NEAR(got[i], wanted[i], 4e-6 * std::max(1.0, std::abs(wanted[i])))
          << "lse element " << i;
  }
}

// Attention over its own keys, with the tensors of one device; S is the type of lse.
template <class T, class S>
struct Case {
  Workbench& bench;
  Heads heads;
  Tensor qkv, dout, starts, out, lse, dqkv;

  template <class Exact>  // inputs are values of this type
  Case(Workbench& b, const Heads& h, const std::vector<int32_t>& s, Exact, double scale = 1.5)
      : bench(b), heads(h) {
    const Shape fused{h.tokens(), h.qkv_width()}, rows{h.tokens(), h.out_width()};
    qkv = upload<T>(b, fused, random_values<Exact>(fused.elements(), "qkv", scale));
    dout = upload<T>(b, rows, random_values<Exact>(rows.elements(), "dout"));
    starts = b.make<int32_t>({h.batch, h.seq}, s);
    out = stale<T>(b, rows);
    lse = stale<S>(b, {h.batch, h.heads, h.seq});
    dqkv = stale<T>(b, fused);
  }
  void run() {
    attention(bench.stream(), out, lse, qkv, starts, heads);
    attention_backward(bench.stream(), dqkv, dout, out, lse, qkv, starts, heads);
  }
  std::vector<std::vector<std::byte>> bits() {
    return {bench.bytes(out), bench.bytes(lse), bench.bytes(dqkv)};
  }
};

// One part of the keys of attention over ranges; R is the type of the results.
template <class T, class S, class R>
struct RangesCase {
  Workbench& bench;
  Heads heads;
  int64_t kv_seq;
  Tensor qkv, kv, dout, begin, end, out, lse, delta, dqkv, dkv;

  template <class Exact>
  RangesCase(Workbench& b, const Heads& h, int64_t keys, const Bounds& bounds, Exact)
      : bench(b), heads(h), kv_seq(keys) {
    const Shape fused{h.tokens(), h.qkv_width()}, rows{h.tokens(), h.out_width()};
    const Shape packed{h.batch * keys, h.kv_width()}, lines{h.batch, h.heads, h.seq};
    qkv = upload<T>(b, fused, random_values<Exact>(fused.elements(), "qkv", 1.5));
    kv = upload<T>(b, packed, random_values<Exact>(packed.elements(), "kv", 1.5));
    dout = upload<T>(b, rows, random_values<Exact>(rows.elements(), "dout"));
    begin = b.make<int32_t>({h.batch, h.seq}, bounds.begin);
    end = b.make<int32_t>({h.batch, h.seq}, bounds.end);
    out = stale<R>(b, rows);
    lse = stale<S>(b, lines);
    delta = stale<S>(b, lines);
    dqkv = stale<R>(b, fused);
    dkv = stale<R>(b, packed);
  }
  void forward() { attention_ranges(bench.stream(), out, lse, qkv, kv, begin, end, heads, kv_seq); }
  void backward(Write dq = Write::Replace, Write dk = Write::Replace) {
    attention_delta(bench.stream(), delta, dout, out, heads);
    attention_ranges_backward(bench.stream(), dqkv, dkv, dout, delta, lse, qkv, kv, begin, end,
                              heads, kv_seq, dq, dk);
  }
  Values dq() { return queries_of(download(bench, dqkv), heads); }
  std::vector<std::vector<std::byte>> bits() {
    return {bench.bytes(out), bench.bytes(lse), bench.bytes(delta), bench.bytes(dqkv),
            bench.bytes(dkv)};
  }
};

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().gpus.empty()) GTEST_SKIP() << "no NVIDIA GPU";
    gpu_.emplace(1, DeviceKind::Cuda, int64_t{2} << 30);
    cpu_.emplace(4, DeviceKind::Cpu, int64_t{2} << 30);
  }
  Workbench& gpu() { return *gpu_; }
  Workbench& cpu() { return *cpu_; }

  // document: the mean length of one, or 0 for rows that are one each
  template <class T>
  void expect_like_cpu(const Heads& heads, int document) {
    expect_like_cpu<T>(heads, document == 0 ? std::vector<int32_t>(heads.tokens(), 0)
                                            : random_starts(heads, document, 7));
  }
  template <class T>
  void expect_like_cpu(const Heads& heads, const std::vector<int32_t>& starts) {
    SCOPED_TRACE(concat(name_of(kDTypeOf<T>), " batch=", heads.batch, " seq=", heads.seq,
                        " heads=", heads.heads, " kv_heads=", heads.kv_heads,
                        " head_dim=", heads.head_dim, " last start=", starts.back()));
    Case<T, float> got(gpu(), heads, starts, T{});
    Case<double, double> wanted(cpu(), heads, starts, T{});
    got.run();
    wanted.run();
    expect_lse(download(gpu(), got.lse), download(cpu(), wanted.lse));
    expect_close<T>(download(gpu(), got.out), download(cpu(), wanted.out), "out");
    expect_close<T>(download(gpu(), got.dqkv), download(cpu(), wanted.dqkv), "dqkv");
    gpu().stream().check_data();
  }

  template <class T, class R>
  void expect_ranges_like_cpu(const Heads& heads, int64_t kv_seq, uint64_t seed) {
    SCOPED_TRACE(concat(name_of(kDTypeOf<T>), " into ", name_of(kDTypeOf<R>),
                        " batch=", heads.batch, " seq=", heads.seq, " kv_seq=", kv_seq,
                        " heads=", heads.heads, " head_dim=", heads.head_dim, " seed=", seed));
    const Bounds bounds = random_bounds(heads, kv_seq, seed);
    RangesCase<T, float, R> got(gpu(), heads, kv_seq, bounds, T{});
    RangesCase<double, double, double> wanted(cpu(), heads, kv_seq, bounds, T{});
    for (const Write write : {Write::Replace, Write::Add}) {
      got.forward();
      wanted.forward();
      const Write chain = write == Write::Add ? Write::Chain : Write::Replace;
      got.backward(chain, write);
      wanted.backward(chain, write);
      expect_lse(download(gpu(), got.lse), download(cpu(), wanted.lse));
      expect_close<T>(download(gpu(), got.out), download(cpu(), wanted.out), "out");
      expect_close<T>(got.dq(), wanted.dq(), "dq");
      expect_close<T>(download(gpu(), got.dkv), download(cpu(), wanted.dkv), "dkv");
    }
    gpu().stream().check_data();
  }

  template <class T>
  void expect_cached_like_whole(const Heads& heads, const std::vector<int64_t>& steps);

 private:
  std::optional<Workbench> gpu_, cpu_;
};

// Every width of a head with every length; the number of heads and the documents change from one to
// the next.
TEST_F(CudaAttention, EqualsTheCpuOverManyShapes) {
  const std::pair<int, int> kinds[] = {{2, 2}, {4, 1}, {6, 2}};
  const int documents[] = {0, 20, 0, 90};
  int i = 0;
  for (const int64_t seq : {1, 65, 96, 127, 1000})
    for (const int64_t dim : {2, 10, 32, 34, 64, 80, 96, 128, 192, 256}) {
      const auto [heads, kv_heads] = kinds[i % 3];
      const int64_t batch = seq < 1000 ? 2 : 1;
      expect_like_cpu<float>({batch, seq, heads, kv_heads, dim}, documents[i % 4]);
      expect_like_cpu<bf16>({batch, seq, heads, kv_heads, dim}, documents[(i + 1) % 4]);
      expect_like_cpu<f16>({batch, seq, heads, kv_heads, dim}, documents[(i + 2) % 4]);
      ++i;
    }
}

// cuDNN computes the rows that are one document, and kernels of our own the others.
TEST_F(CudaAttention, EqualsTheCpuWhenSomeRowsAreOneDocument) {
  const std::pair<int, int> kinds[] = {{3, 3}, {4, 1}, {6, 2}};
  int i = 0;
  for (const int64_t seq : {40, 128, 300})
    for (const int64_t dim : {64, 80, 128, 256}) {
      const auto [heads, kv_heads] = kinds[i++ % 3];
      const Heads shape{4, seq, heads, kv_heads, dim};
      std::vector<int32_t> starts(shape.tokens(), 0);
      std::fill(starts.begin() + 2 * seq - 1, starts.begin() + 2 * seq, seq - 1);  // row 1
      std::fill(starts.begin() + 3 * seq + 7, starts.end(), 7);                    // row 3
      expect_like_cpu<bf16>(shape, starts);
      expect_like_cpu<f16>(shape, starts);
    }
}

TEST_F(CudaAttention, SurvivesScoresOfAnySize) {
  const Heads heads{1, 200, 2, 1, 64};
  const std::vector<int32_t> starts = random_starts(heads, 50, 3);
  Case<bf16, float> got(gpu(), heads, starts, bf16{}, 150);
  Case<double, double> wanted(cpu(), heads, starts, bf16{}, 150);
  got.run();
  wanted.run();
  expect_lse(download(gpu(), got.lse), download(cpu(), wanted.lse));
  for (const double x : download(gpu(), got.out)) ASSERT_TRUE(std::isfinite(x));
  for (const double x : download(gpu(), got.dqkv)) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(CudaAttention, RangesEqualTheCpuOverManyShapes) {
  const std::pair<Heads, int64_t> shapes[] = {
      {{1, 2, 1, 1, 8}, 3},       {{2, 65, 2, 1, 64}, 40},   {{1, 127, 4, 4, 16}, 13},
      {{2, 49, 4, 1, 24}, 200},   {{1, 300, 2, 1, 128}, 97}, {{1, 145, 4, 2, 80}, 300},
      {{2, 97, 2, 1, 10}, 96},    {{1, 60, 6, 2, 192}, 500}, {{1, 300, 2, 2, 34}, 150},
      {{1, 200, 2, 1, 256}, 390},
  };
  for (const auto& [heads, kv_seq] : shapes)
    for (const uint64_t seed : {1, 2}) {
      expect_ranges_like_cpu<float, float>(heads, kv_seq, seed);
      expect_ranges_like_cpu<bf16, bf16>(heads, kv_seq, seed);
      expect_ranges_like_cpu<bf16, float>(heads, kv_seq, seed);
      expect_ranges_like_cpu<f16, float>(heads, kv_seq, seed);
    }
}

TEST_F(CudaAttention, QueriesThatSeeNothingHaveNoGradient) {
  const Heads heads{1, 130, 1, 1, 16};
  const Bounds none{std::vector<int32_t>(130, 50), std::vector<int32_t>(130, 50)};
  RangesCase<bf16, float, float> c(gpu(), heads, 50, none, bf16{});
  c.forward();
  c.backward();
  EXPECT_EQ(download(gpu(), c.out), Values(130 * 16, 0));
  EXPECT_EQ(c.dq(), Values(130 * 16, 0));
  EXPECT_TRUE(std::isnan(download(gpu(), c.dqkv)[16])) << "the column of a key was written";
  EXPECT_EQ(download(gpu(), c.dkv), Values(50 * 32, 0));
  for (const double l : download(gpu(), c.lse)) EXPECT_EQ(l, -kInfinity);
}

// The keys of a row in blocks, as a ring brings them; batch 1, so that a block is a slice.
TEST_F(CudaAttention, BlocksOfKeysAddUpToTheWhole) {
  const Heads heads{1, 500, 4, 2, 64};
  const std::vector<int32_t> starts = random_starts(heads, 250, 9);
  RangesCase<double, double, double> wanted(cpu(), heads, 500, causal_bounds(starts, heads, 0, 500),
                                            bf16{});
  wanted.forward();
  wanted.backward();
  for (const int64_t block : {32, 96, 250}) {
    RangesCase<bf16, float, float> sum(gpu(), heads, 500, causal_bounds(starts, heads, 0, 500),
                                       bf16{});
    std::vector<RangesCase<bf16, float, float>> parts;
    for (int64_t first = 0; first < 500; first += block) {
      const int64_t count = std::min(block, 500 - first);
      auto& part = parts.emplace_back(gpu(), heads, count,
                                      causal_bounds(starts, heads, first, count), bf16{});
      part.kv = sum.kv.slice(first, first + count);
      part.dkv = sum.dkv.slice(first, first + count);
      part.forward();
      if (first == 0) {
        copy(gpu().stream(), sum.out, part.out);
        copy(gpu().stream(), sum.lse, part.lse);
      } else {
        attention_merge(gpu().stream(), sum.out, sum.lse, part.out, part.lse);
      }
    }
    for (auto& part : parts) {
      part.out = sum.out;
      part.lse = sum.lse;
      part.dqkv = sum.dqkv;
      part.backward(&part == &parts.front() ? Write::Replace : Write::Chain);
    }
    expect_lse(download(gpu(), sum.lse), download(cpu(), wanted.lse));
    expect_close<bf16>(download(gpu(), sum.out), download(cpu(), wanted.out), "out");
    expect_close<bf16>(sum.dq(), wanted.dq(), "dq");
    expect_close<bf16>(download(gpu(), sum.dkv), download(cpu(), wanted.dkv), "dkv");
  }
}

template <class T>
void expect_bits_of_whole(Workbench& gpu, int64_t dim) {
  const Heads heads{1, 300, 2, 1, dim};
  const std::vector<int32_t> starts(300, 0);
  RangesCase<T, float, float> whole(gpu, heads, 300, causal_bounds(starts, heads, 0, 300), T{});
  whole.forward();
  whole.backward();
  const Tensor dqkv = stale<float>(gpu, whole.qkv.shape());
  for (int64_t first = 0; first < 300; first += kKeysTogether) {
    const int64_t count = std::min(kKeysTogether, 300 - first);
    RangesCase<T, float, float> part(gpu, heads, count, causal_bounds(starts, heads, first, count),
                                     T{});
    part.kv = whole.kv.slice(first, first + count);
    part.out = whole.out;
    part.lse = whole.lse;
    part.dqkv = dqkv;
    part.backward(first == 0 ? Write::Replace : Write::Chain);
  }
  const Values got = download(gpu, dqkv), wanted = download(gpu, whole.dqkv);
  EXPECT_EQ(queries_of(got, heads), queries_of(wanted, heads))
      << name_of(kDTypeOf<T>) << " " << dim;
}

TEST_F(CudaAttention, GradientsOfAlignedBlocksGoOnWithTheBitsOfTheWhole) {
  for (const int64_t dim : {64, 80, 192}) {
    expect_bits_of_whole<float>(gpu(), dim);
    expect_bits_of_whole<bf16>(gpu(), dim);
    expect_bits_of_whole<f16>(gpu(), dim);
  }
}

TEST_F(CudaAttention, TheSameRangesGiveTheBitsOfAttention) {
  const Heads heads{2, 230, 4, 2, 40};
  std::vector<int32_t> starts = random_starts(heads, 70, 6);
  starts[229] = starts[459] = 229;  // no row is one document, which cuDNN would compute
  Case<bf16, float> fused(gpu(), heads, starts, bf16{});
  fused.run();
  RangesCase<bf16, float, bf16> ranges(gpu(), heads, heads.seq,
                                       causal_bounds(starts, heads, 0, heads.seq), bf16{});
  const Values qkv = download(gpu(), fused.qkv);
  const int64_t group = heads.group() * heads.head_dim, period = group + 2 * heads.head_dim;
  const auto keys_of = [&](const Values& values) {
    Values keys;
    for (size_t i = 0; i < values.size(); ++i)
      if (static_cast<int64_t>(i) % period >= group) keys.push_back(values[i]);
    return keys;
  };
  ranges.kv = upload<bf16>(gpu(), ranges.kv.shape(), keys_of(qkv));
  ranges.forward();
  ranges.backward();
  EXPECT_EQ(gpu().bytes(ranges.out), gpu().bytes(fused.out));
  EXPECT_EQ(gpu().bytes(ranges.lse), gpu().bytes(fused.lse));
  const Values dqkv = download(gpu(), fused.dqkv);
  EXPECT_EQ(ranges.dq(), queries_of(dqkv, heads));
  EXPECT_EQ(download(gpu(), ranges.dkv), keys_of(dqkv));
}

TEST_F(CudaAttention, RunsOfOurKernelsRepeatBitForBit) {
  for (const int64_t dim : {64, 128, 256}) {
    const Heads heads{2, 700, 4, 2, dim};
    std::vector<int32_t> starts = random_starts(heads, 300, 1);
    starts[699] = starts[1399] = 699;  // no row is one document, which cuDNN would compute
    Case<bf16, float> a(gpu(), heads, starts, bf16{}), b(gpu(), heads, starts, bf16{});
    Case<float, float> c(gpu(), heads, starts, bf16{}), d(gpu(), heads, starts, bf16{});
    a.run();
    c.run();
    d.run();
    b.run();
    EXPECT_EQ(a.bits(), b.bits()) << dim;
    EXPECT_EQ(c.bits(), d.bits()) << dim;
  }
}

template <class T>
void CudaAttention::expect_cached_like_whole(const Heads& heads,
                                             const std::vector<int64_t>& steps) {
  const std::vector<int32_t> starts(heads.tokens(), 0);
  Case<double, double> wanted(cpu(), heads, starts, T{});
  attention(cpu().stream(), wanted.out, wanted.lse, wanted.qkv, wanted.starts, heads);
  const Values qkv = download(cpu(), wanted.qkv), out = download(cpu(), wanted.out);
  const Shape cache{heads.batch, heads.kv_heads, heads.seq + 3, heads.head_dim};
  Tensor keys = stale<T>(gpu(), cache), values = stale<T>(gpu(), cache);
  int64_t past = 0;
  for (const int64_t step : steps) {
    const auto rows = [&](const Values& from, int64_t width) {
      Values some;
      for (int64_t row = 0; row < heads.batch; ++row) {
        const auto first = from.begin() + (row * heads.seq + past) * width;
        some.insert(some.end(), first, first + step * width);
      }
      return some;
    };
    Heads now = heads;
    now.seq = step;
    Tensor got = stale<T>(gpu(), {now.tokens(), now.out_width()});
    attention_cached(
        gpu().stream(), got, keys, values,
        upload<T>(gpu(), {now.tokens(), now.qkv_width()}, rows(qkv, heads.qkv_width())), past, now);
    expect_close<T>(download(gpu(), got), rows(out, heads.out_width()), concat("past=", past));
    past += step;
  }
}

TEST_F(CudaAttention, APromptThenTokensEqualTheWholeSequence) {
  expect_cached_like_whole<float>({2, 203, 4, 1, 64}, {150, 1, 1, 50, 1});
  expect_cached_like_whole<bf16>({2, 203, 4, 2, 128}, {1, 1, 148, 1, 1, 50, 1});
  expect_cached_like_whole<f16>({1, 110, 6, 3, 10}, {7, 1, 100, 2});
}

TEST_F(CudaAttention, MergeKeepsTheRowsThatOnlyOnePartSaw) {
  const double none = -kInfinity;
  // Two tokens of two heads of width 2; lse is by head, then token.
  const Values out = {1, 2, 0, 0, 0, 0, 4, 8},
               out_b = {std::nan(""), std::nan(""), 7, 9, 0, 0, 8, 0};
  const auto expect_merged = [&]<class R, class T>(R, T) {
    Tensor to = upload<R>(gpu(), {2, 4}, out);
    Tensor lse = upload<float>(gpu(), {1, 2, 2}, {0.5, none, none, 0});
    const Tensor from = upload<T>(gpu(), {2, 4}, out_b);
    const Tensor lse_b = upload<float>(gpu(), {1, 2, 2}, {none, none, 2.5, std::log(3.0)});
    attention_merge(gpu().stream(), to, lse, from, lse_b);
    const Values o = download(gpu(), to), l = download(gpu(), lse);
    EXPECT_EQ(Values(o.begin(), o.begin() + 6), (Values{1, 2, 7, 9, 0, 0}));
    EXPECT_NEAR(o[6], 7, 1e-6);
    EXPECT_NEAR(o[7], 2, 1e-6);
    EXPECT_EQ(Values(l.begin(), l.begin() + 3), (Values{0.5, none, 2.5}));
    EXPECT_NEAR(l[3], std::log(4.0), 1e-6);
  };
  expect_merged(float{}, float{});
  expect_merged(bf16{}, bf16{});
  expect_merged(float{}, f16{});
}

TEST_F(CudaAttention, ReportsBadStartsAndClampsThem) {
  const Heads heads{2, 4, 1, 1, 8};
  const auto results = [&](const std::vector<int32_t>& starts) {
    Case<bf16, float> c(gpu(), heads, starts, bf16{});
    c.run();
    return c.bits();
  };
  const auto expect_bad = [&](const std::vector<int32_t>& starts,
                              const std::vector<int32_t>& clamped, const std::string& text) {
    EXPECT_EQ(results(starts), results(clamped)) << text;
    EXPECT_ERROR(gpu().stream().check_data(), Usage, "attention: " + text);
    gpu().stream().check_data();
  };
  expect_bad({0, 2, 2, 2, 0, 0, 0, 0}, {0, 1, 2, 2, 0, 0, 0, 0},
             "token 1 of row 0 starts at 2, must be between the start of the token before and 1");
  expect_bad({0, 0, 0, 0, 0, 1, 0, 9}, {0, 0, 0, 0, 0, 1, 1, 3},
             "token 2 of row 1 starts at 0, must be between the start of the token before and 2");
  expect_bad({-1, 0, 0, -9, -5, 1 << 30, 0, 0}, {0, 0, 0, 0, 0, 1, 1, 1},
             "token 0 of row 0 starts at -1");
}

TEST_F(CudaAttention, ReportsBadRangesAndClampsThem) {
  const Heads heads{1, 3, 1, 1, 8};
  const auto results = [&](const Bounds& bounds) {
    RangesCase<float, float, float> c(gpu(), heads, 4, bounds, float{});
    c.forward();
    c.backward();
    return c.bits();
  };
  const auto expect_bad = [&](const Bounds& bounds, const Bounds& clamped,
                              const std::string& text) {
    const auto wanted = results(clamped);
    gpu().stream().check_data();
    EXPECT_EQ(results(bounds), wanted) << text;
    EXPECT_ERROR(gpu().stream().check_data(), Usage, "attention_ranges: " + text);
  };
  expect_bad({{0, 2, 1}, {4, 4, 4}}, {{0, 2, 2}, {4, 4, 4}},
             "begin of token 2 of row 0 is 1, must be between 2 and 4");
  expect_bad({{0, 0, 0}, {1, 4, 5}}, {{0, 0, 0}, {1, 4, 4}},
             "end of token 2 of row 0 is 5, must be between 4 and 4");
  expect_bad({{-1, 0, 0}, {1, 1 << 30, 3}}, {{0, 0, 0}, {1, 4, 4}},
             "begin of token 0 of row 0 is -1, must be between 0 and 4");
}

// Bad bounds far apart, in a row longer than the threads that look at it.
TEST_F(CudaAttention, ReportsTheFirstBadBoundOfAllRows) {
  const Heads heads{3, 1000, 1, 1, 2};
  std::vector<int32_t> starts(heads.tokens(), 0);
  starts[2 * 1000 + 5] = -7;
  starts[1000 + 999] = 1000;
  starts[1000 + 700] = 701;
  Case<bf16, float> c(gpu(), heads, starts, bf16{});
  c.run();
  EXPECT_ERROR(gpu().stream().check_data(), Usage, "token 700 of row 1 starts at 701");
}

// What a dry run without a GPU plans for one.
TEST(AttentionWorkspace, IsTakenByAPhantomOfAGpuToo) {
  const Heads heads{2, 512, 6, 2, 64};
  for (const DeviceKind target : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Arena arena(Device{DeviceKind::Phantom, 0, target});
    {
      Stream stream(arena, 1);
      const auto tensor = [&](DType dtype, const Shape& shape) {
        return arena.allocate(Category::Activations, dtype, shape);
      };
      const Tensor qkv = tensor(DType::BF16, {heads.tokens(), heads.qkv_width()});
      const Tensor out = tensor(DType::BF16, {heads.tokens(), heads.out_width()});
      const Tensor lse = tensor(DType::F32, {heads.batch, heads.heads, heads.seq});
      const Tensor starts = tensor(DType::I32, {heads.batch, heads.seq});
      Tensor dqkv = tensor(DType::BF16, qkv.shape());
      arena.reset_peaks();
      const int64_t before = arena.peak(Category::Workspace);
      attention_backward(stream, dqkv, out, out, lse, qkv, starts, heads);
      EXPECT_EQ(arena.peak(Category::Workspace) - before,
                attention_workspace_bytes(heads, DType::BF16, target));
      EXPECT_EQ(arena.current(Category::Workspace), before);
    }
  }
}

TEST(AttentionWorkspace, IsForWhatTheLibraryComputesOnly) {
  const Heads heads{2, 512, 6, 2, 64}, odd{2, 512, 6, 2, 36};
  EXPECT_EQ(attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cpu), 0);
  EXPECT_EQ(attention_workspace_bytes(heads, DType::F32, DeviceKind::Cuda), 0);
  EXPECT_EQ(attention_workspace_bytes(odd, DType::F16, DeviceKind::Cuda), 0);
}

TEST(AttentionWorkspace, ThatIsTooSmallIsRefused) {
  const Heads heads{1, 512, 1, 1, 64};
  const int64_t bytes = attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cuda);
  if (bytes == 0) GTEST_SKIP() << "built without cuDNN";
  Arena arena(Device{DeviceKind::Phantom, 0, DeviceKind::Cuda});
  Stream stream(arena, 1);
  const auto tensor = [&](DType dtype, const Shape& shape) {
    return arena.allocate(Category::Activations, dtype, shape);
  };
  Tensor qkv = tensor(DType::BF16, {512, 192}), dqkv = tensor(DType::BF16, {512, 192});
  const Tensor out = tensor(DType::BF16, {512, 64}), lse = tensor(DType::F32, {1, 1, 512});
  const Tensor starts = tensor(DType::I32, {1, 512});
  Tensor small = tensor(DType::F8E4M3, {bytes - 1});
  EXPECT_ERROR(attention_backward_in(stream, dqkv, small, out, out, lse, qkv, starts, heads), Usage,
               concat("workspace of ", bytes - 1, " bytes, must be ", bytes));
}

TEST_F(CudaAttention, RefusesF64) {
  const Heads heads{1, 4, 1, 1, 8};
  Case<double, double> c(gpu(), heads, std::vector<int32_t>(4, 0), double{});
  EXPECT_ERROR(c.run(), Usage, "f64 runs on the CPU only");
}

}  // namespace
}  // namespace sextant

#pragma once
// Attention on a GPU and on the CPU with the same inputs, for tests.
#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include "ops/attention.h"
#include "ops/attention_ranges.h"
#include "support/expect_error.h"
#include "support/key_ranges.h"
#include "support/naive_attention.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {

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

inline Values download(Workbench& bench, const Tensor& tensor) {
  Values out;
  with_floating(tensor.dtype(), [&]<class T>(T) { out = download<T>(bench, tensor); });
  return out;
}

// Outputs begin as NaN, so that nothing of what they held may be read.
template <class T>
Tensor stale(Workbench& bench, const Shape& shape) {
  return upload<T>(bench, shape, Values(shape.elements(), std::nan("")));
}

inline double norm_of_difference(const Values& a, const Values& b) {
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
inline void expect_lse(const Values& got, const Values& wanted) {
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
    const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    cpu_.emplace(threads, DeviceKind::Cpu, int64_t{2} << 30);
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
    SCOPED_TRACE(concat(name_of(kDTypeOf<T>), " batch=", heads.batch, " seq=", heads.seq, " heads=",
                        heads.heads, " kv_heads=", heads.kv_heads, " head_dim=", heads.head_dim,
                        " window=", heads.window, " last start=", starts.back()));
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

}  // namespace sextant

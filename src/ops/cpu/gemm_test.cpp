#include "ops/cpu/gemm.h"

#include "support/agree.h"
#include "tensor/convert.h"

namespace sextant::cpu {
namespace {

// The same product by both kernel sets, if this machine can run both.
template <class T>
void expect_same_bits_of_kernels(int64_t m, int64_t n, int64_t k, Transpose ta, Transpose tb) {
  Workbench bench(2);
  const Tensor a = bench.random<T>(ta == Transpose::Yes ? Shape{k, m} : Shape{m, k}, "a");
  const Tensor b = bench.random<T>(tb == Transpose::Yes ? Shape{n, k} : Shape{k, n}, "b");
  Epilogue epilogue{.write = Write::Add, .activation = Activation::GeluTanh};
  epilogue.pre_activation = bench.empty<T>({m, n});
  const auto work = [&](const KernelSet<T>& kernels) {
    Tensor c = bench.random<T>({m, n}, "c");
    const Access access(bench.stream());
    gemm(bench.stream(), describe<T>(c, a, ta, b, tb, epilogue), kernels);
    return bytes_of(bench, c, epilogue.pre_activation);
  };
  EXPECT_EQ(work(kernels_256<T>()), work(*kernels_512<T>())) << m << " x " << n << " x " << k;
}

TEST(Gemm, KernelsOfBothWidthsGiveTheSameBits) {
  if (!kernels_512<float>()) GTEST_SKIP() << "no AVX-512 here: the 256-bit kernels are the only";
  for (const Transpose ta : {Transpose::No, Transpose::Yes})
    for (const Transpose tb : {Transpose::No, Transpose::Yes}) {
      expect_same_bits_of_kernels<float>(131, 205, 850, ta, tb);
      expect_same_bits_of_kernels<float>(5, 700, 48, ta, tb);
      expect_same_bits_of_kernels<double>(131, 205, 300, ta, tb);
    }
}

// The 256-bit kernels are the ones a machine with AVX-512 would never try otherwise.
TEST(Gemm, TheNarrowKernelsAreChainsToo) {
  Workbench bench(2);
  for (int64_t m = 1; m <= 13; ++m) {
    const int64_t n = 35, k = 401;
    const Tensor a = bench.random<float>({m, k}, "a"), b = bench.random<float>({k, n}, "b");
    Tensor c = bench.empty<float>({m, n});
    gemm(bench.stream(), describe<float>(c, a, Transpose::No, b, Transpose::No, {}),
         kernels_256<float>());
    const std::vector<float> x = bench.read<float>(a), y = bench.read<float>(b);
    const std::vector<float> got = bench.read<float>(c);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum = std::fma(x[static_cast<size_t>(i * k + p)], y[static_cast<size_t>(p * n + j)], sum);
        ASSERT_EQ(got[static_cast<size_t>(i * n + j)], sum) << m << " rows, at " << i << ", " << j;
      }
  }
}

// Values of all sizes; one in eight is denormal or has products that are.
std::vector<bf16> mixed_values(int64_t count, const char* name) {
  const Random random(3, name);
  std::vector<bf16> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const double size = i % 8 == 5 ? 1e-39 : i % 8 == 2 ? 3e-20 : 1;
    values[i] = round_nearest<bf16>(static_cast<float>(size * random.normal(i)));
  }
  return values;
}

// c = a b and c = c + a b, the latter into a c of f32, by one kernel set.
std::vector<std::byte> bf16_products(Workbench& bench, const KernelSet<float>& kernels,
                                     const Shape& mnk, Transpose ta, Transpose tb) {
  const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
  const Tensor a =
      bench.make<bf16>(ta == Transpose::Yes ? Shape{k, m} : Shape{m, k}, mixed_values(m * k, "a"));
  const Tensor b =
      bench.make<bf16>(tb == Transpose::Yes ? Shape{n, k} : Shape{k, n}, mixed_values(k * n, "b"));
  Tensor c = bench.empty<bf16>({m, n}), sums = bench.random<float>({m, n}, "c");
  const Access access(bench.stream());
  gemm(bench.stream(), describe<float>(c, a, ta, b, tb, {}), kernels);
  gemm(bench.stream(), describe<float>(sums, a, ta, b, tb, {.write = Write::Chain}), kernels);
  return bytes_of(bench, c, sums);
}

TEST(Gemm, PairsOfBf16GiveTheBitsOfSingleProducts) {
  if (kernels_bf16() == nullptr) GTEST_SKIP() << "no AVX-512 BF16 here";
  for (const Transpose ta : {Transpose::No, Transpose::Yes})
    for (const Transpose tb : {Transpose::No, Transpose::Yes})
      for (const Shape& mnk : {Shape{131, 205, 1701}, Shape{5, 700, 48}, Shape{70, 33, 1},
                               Shape{24, 64, 33}, Shape{12, 32, 2}}) {
        Workbench bench(2);
        EXPECT_EQ(bf16_products(bench, *kernels_bf16(), mnk, ta, tb),
                  bf16_products(bench, kernels_256<float>(), mnk, ta, tb))
            << mnk;
      }
}

// Both operands larger than the shared memory of a stream: each tile packs its own parts.
template <class T>
void expect_same_bits_beyond_shared_memory() {
  constexpr int64_t kM = 30, kN = 45, kK = Stream::kSharedScratch / (sizeof(T) * 30) + 1000;
  Workbench bench(2);
  const auto ramp = [](int64_t count, int64_t step) {
    std::vector<T> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = static_cast<T>(i * step % 1009) / 1009 - T{0.5};
    return values;
  };
  const Tensor a = bench.make<T>({kM, kK}, ramp(kM * kK, 389));
  const Tensor b = bench.make<T>({kK, kN}, ramp(kK * kN, 577));
  Tensor whole = bench.random<T>({kM, kN}, "c"), halves = bench.random<T>({kM, kN}, "c");
  const auto multiply = [&](Tensor& c, const Tensor& x, Transpose tx, const Tensor& y,
                            Write write) {
    gemm(bench.stream(), describe<T>(c, x, tx, y, Transpose::No, {.write = write}),
         best_kernels<T>(kDTypeOf<T>));
  };
  multiply(whole, a, Transpose::No, b, Write::Chain);
  // The same chain in parts that do fit, of a transposed copy of a.
  std::vector<T> turned(static_cast<size_t>(kM * kK));
  const std::vector<T> straight = bench.read<T>(a);
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t p = 0; p < kK; ++p)
      turned[static_cast<size_t>(p * kM + i)] = straight[static_cast<size_t>(i * kK + p)];
  const Tensor at = bench.make<T>({kK, kM}, turned);
  for (int64_t begin = 0; begin < kK; begin += 40000) {
    const int64_t end = std::min(begin + 40000, kK);
    multiply(halves, at.slice(begin, end), Transpose::Yes, b.slice(begin, end), Write::Chain);
  }
  EXPECT_EQ(bench.bytes(halves), bench.bytes(whole));
}

TEST(Gemm, OperandsBeyondTheSharedMemoryGiveTheSameBits) {
  expect_same_bits_beyond_shared_memory<float>();
  expect_same_bits_beyond_shared_memory<double>();
}

}  // namespace
}  // namespace sextant::cpu

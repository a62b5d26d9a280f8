#include "ops/cpu/attention_kernel.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sextant::cpu {
namespace {

template <class T>
std::vector<T> random_values(int64_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(bits() % 20011) / 2003 - T{5};
  return values;
}

constexpr int64_t kStride = 96, kTerms = 41;  // whole panels; no whole panel

template <class T>
using Multiply = typename AttentionKernels<T>::Multiply;

// c[kStrip, kPanel] behind and before other numbers, after the product.
template <class T>
std::vector<T> product(Multiply<T> multiply, int64_t a_stride) {
  const std::vector<T> a = random_values<T>(kStride * kStride, 1);
  const std::vector<T> panel = random_values<T>(kTerms * kPanel<T>, 2);
  const std::vector<T> factors = random_values<T>(kStrip, 3);
  std::vector<T> c = random_values<T>(kStrip * kStride, 4);
  multiply(c.data() + kPanel<T>, kStride, a.data(), a_stride, panel.data(), kTerms, factors.data());
  return c;
}

// The same by chains of single elements.
template <class T>
std::vector<T> chains(Left left, Onto onto, int64_t a_stride) {
  const std::vector<T> a = random_values<T>(kStride * kStride, 1);
  const std::vector<T> panel = random_values<T>(kTerms * kPanel<T>, 2);
  const std::vector<T> factors = random_values<T>(kStrip, 3);
  std::vector<T> c = random_values<T>(kStrip * kStride, 4);
  for (int64_t i = 0; i < kStrip; ++i)
    for (int64_t j = 0; j < kPanel<T>; ++j) {
      T& element = c[size_t(i * kStride + kPanel<T> + j)];
      T sum = onto == Onto::Nothing ? T{0} : element;
      if (onto == Onto::ScaledSum) sum = sum * factors[size_t(i)];
      for (int64_t k = 0; k < kTerms; ++k) {
        const int64_t at = left == Left::Rows ? i * a_stride + k
                           : left == Left::Columns
                               ? k * a_stride + i
                               : k / kPanel<T> * a_stride + i * kPanel<T> + k % kPanel<T>;
        sum = std::fma(a[size_t(at)], panel[size_t(k * kPanel<T> + j)], sum);
      }
      element = sum;
    }
  return c;
}

template <class T>
void expect_products_are_chains(const AttentionKernels<T>& kernels) {
  const int64_t panels = 20 * kPanel<T>;
  EXPECT_EQ(product<T>(kernels.panels, panels), chains<T>(Left::Panels, Onto::Nothing, panels));
  EXPECT_EQ(product<T>(kernels.columns_onto_sum, kStride),
            chains<T>(Left::Columns, Onto::Sum, kStride));
  EXPECT_EQ(product<T>(kernels.rows_onto_sum, kStride), chains<T>(Left::Rows, Onto::Sum, kStride));
  EXPECT_EQ(product<T>(kernels.rows_onto_scaled_sum, kStride),
            chains<T>(Left::Rows, Onto::ScaledSum, kStride));
}

TEST(AttentionKernel, ProductsAreChainsInAscendingK) {
  expect_products_are_chains(attention_kernels_256<float>());
  expect_products_are_chains(attention_kernels_256<double>());
}

TEST(AttentionKernel, LargestAndSumAreThoseOfTheRow) {
  const AttentionKernels<float>& kernels = attention_kernels_256<float>();
  std::vector<float> scores = random_values<float>(kStride, 5);
  scores[3] = scores[70] = 100;  // outside of [16, 64)
  scores[41] = 7;
  EXPECT_EQ(kernels.largest(scores.data(), 16, 64), 7);
  const std::vector<float> before = scores;
  const float sum = kernels.exponentiate(scores.data(), 16, 64, 7);
  double expected = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i < 16 || i >= 64) {
      EXPECT_EQ(scores[i], before[i]) << i;
      continue;
    }
    EXPECT_NEAR(scores[i], std::exp2(before[i] - 7), 2e-7) << i;
    expected += std::exp2(before[i] - 7);
  }
  EXPECT_NEAR(sum, expected, 1e-5);
}

template <class T>
void expect_same_bits() {
  const AttentionKernels<T>& narrow = attention_kernels_256<T>();
  const AttentionKernels<T>& wide = *attention_kernels_512<T>();
  expect_products_are_chains(wide);
  std::vector<T> a = random_values<T>(kStride, 5), b = a;
  std::vector<T> da = random_values<T>(kStride, 6), db = da;
  const int64_t end = kStride - kPanel<T>;
  for (int64_t begin = 0; begin < end; begin += kPanel<T>)
    EXPECT_EQ(narrow.largest(a.data(), begin, end), wide.largest(a.data(), begin, end));
  narrow.probabilities(a.data(), da.data(), kPanel<T>, end, T{1}, T{2});
  wide.probabilities(b.data(), db.data(), kPanel<T>, end, T{1}, T{2});
  EXPECT_EQ(a, b);
  EXPECT_EQ(da, db);
  for (int64_t begin = 0; begin < end; begin += kPanel<T>)
    EXPECT_EQ(narrow.exponentiate(a.data(), begin, end, T{5}),
              wide.exponentiate(b.data(), begin, end, T{5}));
  EXPECT_EQ(a, b);
}

TEST(AttentionKernel, BothWidthsGiveTheSameBits) {
  if (!attention_kernels_512<float>()) GTEST_SKIP() << "no AVX-512 here: 256 bits are the only";
  expect_same_bits<float>();
  expect_same_bits<double>();
}

}  // namespace
}  // namespace sextant::cpu

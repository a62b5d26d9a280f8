#include "ops/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

// An arena, a stream on it and tensors filled from named random numbers.
struct Bench {
  explicit Bench(int threads = 1) : arena(Device{}, int64_t{256} << 20), stream(arena, threads) {}

  template <class T = float>
  Tensor empty(const Shape& shape) {
    return arena.allocate(Category::Workspace, kDTypeOf<T>, shape);
  }
  template <class T = float>
  Tensor normal(const Shape& shape, const char* name) {
    Tensor out = empty<T>(shape);
    const Random random(7, name);
    for (int64_t i = 0; i < out.elements(); ++i)
      out.data<T>()[i] = static_cast<T>(random.normal(static_cast<uint64_t>(i)));
    return out;
  }
  template <class T = float>
  Tensor of(const Shape& shape, const std::vector<double>& values) {
    Tensor out = empty<T>(shape);
    for (size_t i = 0; i < values.size(); ++i) out.data<T>()[i] = static_cast<T>(values[i]);
    return out;
  }

  Arena arena;
  Stream stream;
};

template <class T>
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data<T>(), b.data<T>(), static_cast<size_t>(a.bytes())) == 0;
}

Shape shape_of(int64_t lines, int64_t k, Transpose k_first) {
  return k_first == Transpose::Yes ? Shape{k, lines} : Shape{lines, k};
}

// The promise, written down: for every element a chain of fused multiply-adds over ascending k.
template <class T>
T chain(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, int64_t row, int64_t column,
        T sum) {
  const int64_t k = a.dim(ta == Transpose::Yes ? 0 : 1);
  for (int64_t p = 0; p < k; ++p) {
    const T x = a.data<T>()[ta == Transpose::Yes ? p * a.dim(1) + row : row * k + p];
    const T y = b.data<T>()[tb == Transpose::Yes ? column * k + p : p * b.dim(1) + column];
    sum = std::fma(x, y, sum);
  }
  return sum;
}

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},     {1, 1, 1000},    {2, 3, 5},      {7, 17, 31},
                            {13, 33, 37},  {97, 1, 129},    {1, 101, 257},  {64, 96, 384},
                            {65, 97, 385}, {31, 250, 1021}, {300, 47, 800}, {12, 800, 3}};
constexpr Transpose kBoth[] = {Transpose::No, Transpose::Yes};

template <class T>
void expect_chain_bits(Bench& bench, const Sizes& sizes, Transpose ta, Transpose tb) {
  const auto [m, n, k] = sizes;
  const Tensor a = bench.normal<T>(shape_of(m, k, ta), "a");
  const Tensor b =
      bench.normal<T>(shape_of(n, k, tb == Transpose::Yes ? Transpose::No : Transpose::Yes), "b");
  Tensor c = bench.empty<T>({m, n});
  matmul(bench.stream, c, a, ta, b, tb, {});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      ASSERT_EQ(c.data<T>()[i * n + j], chain<T>(a, ta, b, tb, i, j, T{0}))
          << m << " x " << n << " x " << k << " at " << i << ", " << j;
}

TEST(Matmul, OfTwoByTwoByHand) {
  Bench bench;
  const Tensor a = bench.of({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = bench.of({3, 2}, {7, 8, 9, 10, 11, 12});
  Tensor c = bench.empty({2, 2});
  matmul(bench.stream, c, a, Transpose::No, b, Transpose::No, {});
  EXPECT_EQ(std::vector<float>(c.data<float>(), c.data<float>() + 4),
            (std::vector<float>{58, 64, 139, 154}));
}

TEST(Matmul, IsOneChainOfFusedMultiplyAddsForAllLayoutsAndSizes) {
  Bench bench(2);
  for (const Sizes& sizes : kSizes)
    for (const Transpose ta : kBoth)
      for (const Transpose tb : kBoth) {
        expect_chain_bits<float>(bench, sizes, ta, tb);
        expect_chain_bits<double>(bench, sizes, ta, tb);
      }
}

}  // namespace
}  // namespace sextant

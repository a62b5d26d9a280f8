#include "ops/matmul.h"

#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr Transpose kBoth[] = {Transpose::No, Transpose::Yes};

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},     {1, 1, 1000},   {2, 3, 5},      {7, 17, 31},
                            {13, 33, 37},  {97, 1, 129},   {1, 101, 257},  {64, 96, 384},
                            {65, 97, 385}, {31, 130, 821}, {300, 23, 130}, {12, 800, 3},
                            {800, 30, 5},  {67, 71, 16},   {60, 70, 1200}};

Shape shape_of_a(const Sizes& size, Transpose ta) {
  return ta == Transpose::Yes ? Shape{size.k, size.m} : Shape{size.m, size.k};
}
Shape shape_of_b(const Sizes& size, Transpose tb) {
  return tb == Transpose::Yes ? Shape{size.n, size.k} : Shape{size.k, size.n};
}

// The promise, written down: a chain of fused multiply-adds over ascending k, from `start`.
template <class T>
std::vector<T> chains(const Sizes& size, const std::vector<T>& a, Transpose ta,
                      const std::vector<T>& b, Transpose tb, std::vector<T> start) {
  const auto [m, n, k] = size;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) {
        const T x = a[static_cast<size_t>(ta == Transpose::Yes ? p * m + i : i * k + p)];
        const T y = b[static_cast<size_t>(tb == Transpose::Yes ? j * k + p : p * n + j)];
        T& sum = start[static_cast<size_t>(i * n + j)];
        sum = std::fma(x, y, sum);
      }
  return start;
}

template <class T>
void expect_chains(Workbench& bench, const Sizes& size, Transpose ta, Transpose tb, Write write) {
  const Tensor a = bench.random<T>(shape_of_a(size, ta), "a");
  const Tensor b = bench.random<T>(shape_of_b(size, tb), "b");
  Tensor c = bench.random<T>({size.m, size.n}, "c");
  const std::vector<T> old = bench.read<T>(c);
  const std::vector<T> start = write == Write::Chain ? old : std::vector<T>(old.size());
  std::vector<T> wanted = chains(size, bench.read<T>(a), ta, bench.read<T>(b), tb, start);
  if (write == Write::Add)
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = old[i] + wanted[i];
  matmul(bench.stream(), c, a, ta, b, tb, {.write = write});
  EXPECT_EQ(bench.read<T>(c), wanted) << size.m << " x " << size.n << " x " << size.k;
}

TEST(Matmul, OfTwoByTwoByHand) {
  Workbench bench;
  const Tensor a = bench.make<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = bench.make<float>({3, 2}, {7, 8, 9, 10, 11, 12});
  Tensor c = bench.empty<float>({2, 2});
  matmul(bench.stream(), c, a, Transpose::No, b, Transpose::No, {});
  EXPECT_EQ(bench.read<float>(c), (std::vector<float>{58, 64, 139, 154}));
}

TEST(Matmul, IsOneChainOfFusedMultiplyAddsForAllLayoutsAndSizes) {
  Workbench bench(2);
  for (const Sizes& size : kSizes)
    for (const Transpose ta : kBoth)
      for (const Transpose tb : kBoth) {
        expect_chains<float>(bench, size, ta, tb, Write::Replace);
        expect_chains<double>(bench, size, ta, tb, Write::Replace);
      }
}

TEST(Matmul, AddsAFinishedSumOrChainsOnFromC) {
  Workbench bench(2);
  for (const Sizes& size : kSizes)
    for (const Write write : {Write::Add, Write::Chain}) {
      expect_chains<float>(bench, size, Transpose::Yes, Transpose::No, write);
      expect_chains<double>(bench, size, Transpose::No, Transpose::No, write);
    }
}

TEST(Matmul, ChainOverTwoHalvesOfKIsTheProductOverAll) {
  Workbench bench(2);
  const Tensor a = bench.random<float>({900, 50}, "a"), b = bench.random<float>({900, 70}, "b");
  Tensor whole = bench.empty<float>({50, 70}), halves = bench.empty<float>({50, 70});
  matmul(bench.stream(), whole, a, Transpose::Yes, b, Transpose::No, {});
  matmul(bench.stream(), halves, a.slice(0, 411), Transpose::Yes, b.slice(0, 411), Transpose::No,
         {});
  matmul(bench.stream(), halves, a.slice(411, 900), Transpose::Yes, b.slice(411, 900),
         Transpose::No, {.write = Write::Chain});
  EXPECT_EQ(bench.bytes(halves), bench.bytes(whole));
}

TEST(Matmul, OverAnEmptyKIsZero) {
  Workbench bench;
  const Tensor a = bench.empty<float>({3, 0}), b = bench.empty<float>({0, 2});
  Tensor c = bench.make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  matmul(bench.stream(), c, a, Transpose::No, b, Transpose::No, {.write = Write::Chain});
  EXPECT_EQ(bench.read<float>(c), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  matmul(bench.stream(), c, a, Transpose::No, b, Transpose::No, {});
  EXPECT_EQ(bench.read<float>(c), std::vector<float>(6));
}

TEST(Matmul, ARowOrColumnHasTheSameBitsInAnyCut) {
  Workbench bench(2);
  const Tensor a = bench.random<float>({211, 500}, "a"), b = bench.random<float>({307, 500}, "b");
  Tensor c = bench.empty<float>({211, 307});
  matmul(bench.stream(), c, a, Transpose::No, b, Transpose::Yes, {});
  const std::vector<float> whole = bench.read<float>(c);
  for (const auto& [begin, end] : {std::pair{0, 1}, {5, 18}, {13, 200}, {210, 211}}) {
    Tensor rows = bench.empty<float>({end - begin, 307});
    matmul(bench.stream(), rows, a.slice(begin, end), Transpose::No, b, Transpose::Yes, {});
    EXPECT_EQ(bench.bytes(rows), bench.bytes(c.slice(begin, end))) << begin << " " << end;
    Tensor columns = bench.empty<float>({211, end - begin});
    matmul(bench.stream(), columns, a, Transpose::No, b.slice(begin, end), Transpose::Yes, {});
    const std::vector<float> part = bench.read<float>(columns);
    for (int64_t i = 0; i < 211; ++i)
      for (int64_t j = begin; j < end; ++j)
        ASSERT_EQ(part[static_cast<size_t>(i * (end - begin) + j - begin)],
                  whole[static_cast<size_t>(i * 307 + j)]);
  }
}

TEST(Matmul, BitsDoNotDependOnThreads) {
  expect_same_bits([](Workbench& bench) {
    const Tensor a = bench.random<float>({150, 900}, "a"), b = bench.random<float>({900, 333}, "b");
    const Tensor bias = bench.random<float>({333}, "bias");
    Tensor c = bench.random<float>({150, 333}, "c"), pre = bench.empty<float>({150, 333});
    matmul(bench.stream(), c, a, Transpose::No, b, Transpose::No,
           {.write = Write::Add,
            .activation = Activation::GeluTanh,
            .bias = bias,
            .pre_activation = pre});
    return bytes_of(bench, c, pre);
  });
}

double gelu_of(double x, Activation form) {
  if (form == Activation::GeluExact) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x, Activation form) {
  return (gelu_of(x + 1e-5, form) - gelu_of(x - 1e-5, form)) / 2e-5;
}

// The epilogue's order, in double, from the finished sums.
std::vector<double> finish(Workbench& bench, const std::vector<double>& sums, size_t n,
                           const Epilogue& todo, const std::vector<float>& old) {
  const auto bias = todo.bias ? bench.read<float>(todo.bias) : std::vector<float>(n);
  std::vector<double> out(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    double value = sums[i] + bias[i % n];
    if (todo.backward_of)
      value *= gelu_slope(bench.read<float>(todo.backward_of)[i], todo.activation);
    else if (todo.activation != Activation::None)
      value = gelu_of(value, todo.activation);
    out[i] = value + (todo.write == Write::Add ? old[i] : 0.0F);
  }
  return out;
}

TEST(Matmul, EpilogueDoesItsStepsInOrder) {
  Workbench bench(2);
  for (const Sizes& size : {Sizes{7, 17, 31}, Sizes{26, 64, 900}})
    for (const Write write : {Write::Replace, Write::Add})
      for (const Activation form : {Activation::None, Activation::GeluTanh, Activation::GeluExact})
        for (const bool backward : {false, true}) {
          if (backward && form == Activation::None) continue;
          const Shape shape{size.m, size.n};
          const double scale = 1 / std::sqrt(static_cast<double>(size.k));
          const Tensor a = bench.random<float>({size.m, size.k}, "a", scale);
          const Tensor b = bench.random<float>({size.n, size.k}, "b");
          Tensor c = bench.random<float>(shape, "c");
          Epilogue todo{.write = write, .activation = form};
          if (!backward) todo.bias = bench.random<float>({size.n}, "bias");
          if (backward) todo.backward_of = bench.random<float>(shape, "x");
          if (!backward && form != Activation::None)
            todo.pre_activation = bench.empty<float>(shape);
          const std::vector<float> old = bench.read<float>(c);
          const std::vector<float> af = bench.read<float>(a), bf = bench.read<float>(b);
          const std::vector<double> sums =
              chains<double>(size, {af.begin(), af.end()}, Transpose::No, {bf.begin(), bf.end()},
                             Transpose::Yes, std::vector<double>(old.size()));
          const std::vector<double> wanted =
              finish(bench, sums, static_cast<size_t>(size.n), todo, old);
          matmul(bench.stream(), c, a, Transpose::No, b, Transpose::Yes, todo);
          expect_close(bench.read<float>(c), wanted, 1e-6, "c");
          if (!todo.pre_activation) continue;
          std::vector<double> before = sums;
          const std::vector<float> bias = bench.read<float>(todo.bias);
          for (size_t i = 0; i < before.size(); ++i) before[i] += bias[i % bias.size()];
          expect_close(bench.read<float>(todo.pre_activation), before, 1e-6, "pre_activation");
        }
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  Workbench bench;
  Stream& stream = bench.stream();
  const Transpose no = Transpose::No;
  const Tensor a = bench.empty<float>({2, 3}), b = bench.empty<float>({3, 4});
  Tensor c = bench.empty<float>({2, 4});
  EXPECT_ERROR(matmul(stream, c, a, no, bench.empty<float>({5, 4}), no, {}), Usage,
               "b is f32 [5, 4], must be f32 [3, 4]");
  EXPECT_ERROR(matmul(stream, c, a, no, b, Transpose::Yes, {}), Usage, "must be f32 [3, 3]");
  EXPECT_ERROR(matmul(stream, c, a, no, bench.empty<double>({3, 4}), no, {}), Usage,
               "b is f64 [3, 4]");
  EXPECT_ERROR(matmul(stream, c, a, no, bench.empty<float>({12}), no, {}), Usage,
               "b is [12], must have 2 dims");
  EXPECT_ERROR(matmul(stream, c, bench.empty<int32_t>({2, 3}), no, b, no, {}), Usage,
               "a is i32 [2, 3], must be f32, bf16, f16 or f64");
  Tensor wrong = bench.empty<float>({4, 2});
  EXPECT_ERROR(matmul(stream, wrong, a, no, b, no, {}), Usage,
               "c is f32 [4, 2], must be f32 [2, 4]");
  Tensor square = bench.empty<float>({3, 3});
  EXPECT_ERROR(matmul(stream, square, square, no, square, no, {}), Usage, "c is also an operand");
  EXPECT_ERROR(matmul(stream, c, a, no, b, no, {.bias = bench.empty<float>({2})}), Usage,
               "bias is f32 [2], must be f32 [4]");
  EXPECT_ERROR(matmul(stream, c, a, no, b, no, {.pre_activation = c}), Usage,
               "pre_activation is given without");
  EXPECT_ERROR(matmul(stream, c, a, no, b, no, {.backward_of = c}), Usage,
               "backward_of is given without");
  EXPECT_ERROR(matmul(stream, c, a, no, b, no,
                      {.activation = Activation::GeluTanh, .pre_activation = c, .backward_of = c}),
               Usage, "both given");
  EXPECT_ERROR(matmul(stream, c, a, no, b, no, {.sums = bench.empty<float>({2})}), Usage,
               "sums of rows need a transposed a that is not fp8");
  const Tensor turned = bench.empty<float>({3, 2});
  EXPECT_ERROR(matmul(stream, c, turned, Transpose::Yes, b, no, {.sums = bench.empty<float>({3})}),
               Usage, "sums is f32 [3], must be f32 [2]");
}

}  // namespace
}  // namespace sextant

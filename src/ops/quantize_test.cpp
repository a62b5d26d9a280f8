// fp8 ops against references that round where the ops say: quantise, product, sum of rows.
#include "ops/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/linear.h"
#include "support/expect_error.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

constexpr ScaleBlock kBlocks[] = {{0, 0}, {1, 128}, {128, 1}, {128, 128}};

struct Quantized {
  Tensor q, amax;
};

Quantized quantized(Workbench& bench, const Tensor& x, DType dtype, const ScaleBlock& block) {
  Quantized out{bench.arena().allocate(Category::Activations, dtype, x.shape()),
                bench.empty<float>(block.grid(x.shape()))};
  block_amax(bench.stream(), out.amax, x, block);
  quantize(bench.stream(), out.q, x, out.amax, block);
  return out;
}

// The numbers that q stands for, each rounded to f32.
std::vector<float> meant(Workbench& bench, const Quantized& x, const ScaleBlock& block) {
  std::vector<float> values(static_cast<size_t>(x.q.elements()));
  copy_floats_to_host(bench.stream(), values, x.q);
  const std::vector<float> amax = bench.read<float>(x.amax);
  const int64_t columns = x.q.dim(1);
  for (int64_t i = 0; i < x.q.elements(); ++i) {
    const int64_t at = block.row_of(i / columns) * x.amax.dim(1) + block.column_of(i % columns);
    values[static_cast<size_t>(i)] *= fp8_scale(amax[static_cast<size_t>(at)], x.q.dtype());
  }
  return values;
}

TEST(Quantize, ScalesByTheLargestValueByHand) {
  Workbench bench;
  const Tensor x = bench.make<float>({2, 2}, {0.5F, -7, 3.5F, 0.001F});
  const Quantized q = quantized(bench, x, DType::F8E4M3, {});
  EXPECT_EQ(bench.read<float>(q.amax), (std::vector<float>{7}));
  // Factor 64: 32, -448, 224 and 0.064, whose neighbours are 0.0625 and 0.0703.
  std::vector<float> codes(4);
  copy_floats_to_host(bench.stream(), codes, q.q);
  EXPECT_EQ(codes, (std::vector<float>{32, -448, 224, 0.0625F}));
  EXPECT_EQ(meant(bench, q, {}), (std::vector<float>{0.5F, -7, 3.5F, 0.0625F / 64}));
}

TEST(Quantize, BlocksHaveTheirOwnLargestValue) {
  Workbench bench(2);
  const Tensor x = bench.random<float>({130, 300}, "x");
  const std::vector<float> values = bench.read<float>(x);
  for (const ScaleBlock& block : kBlocks) {
    Tensor amax = bench.empty<float>(block.grid(x.shape()));
    block_amax(bench.stream(), amax, x, block);
    std::vector<float> wanted(static_cast<size_t>(amax.elements()), 0);
    for (int64_t i = 0; i < x.elements(); ++i) {
      float& most = wanted[static_cast<size_t>(block.row_of(i / 300) * amax.dim(1) +
                                               block.column_of(i % 300))];
      most = std::max(most, std::abs(values[static_cast<size_t>(i)]));
    }
    EXPECT_EQ(bench.read<float>(amax), wanted);
  }
}

TEST(Quantize, RoundsOnceAfterTheFactor) {
  Workbench bench(2);
  const Tensor x = bench.random<float>({130, 300}, "x", 3);
  const std::vector<float> values = bench.read<float>(x);
  for (const ScaleBlock& block : kBlocks) {
    const Quantized q = quantized(bench, x, DType::F8E5M2, block);
    const std::vector<float> amax = bench.read<float>(q.amax);
    const std::vector<f8e5m2> codes = bench.read<f8e5m2>(q.q);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float most = amax[static_cast<size_t>(block.row_of(i / 300) * q.amax.dim(1) +
                                                  block.column_of(i % 300))];
      const f8e5m2 wanted =
          round_nearest<f8e5m2>(values[static_cast<size_t>(i)] * (57344.0F / most));
      ASSERT_EQ(codes[static_cast<size_t>(i)].bits, wanted.bits) << i;
    }
  }
}

TEST(Quantize, KeepsZerosAndTinyValuesAndShowsWhatIsNotFinite) {
  Workbench bench;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto through = [&](std::vector<float> values) {
    const Tensor x = bench.make<float>({1, 2}, values);
    return meant(bench, quantized(bench, x, DType::F8E4M3, {}), {});
  };
  EXPECT_EQ(through({0, -0.0F}), (std::vector<float>{0, 0}));
  EXPECT_NEAR(through({1e-38F, 0})[0], 1e-38F, 1e-39F);
  for (const std::vector<float>& bad : {std::vector<float>{1, infinity}, {1, NAN}, {-infinity, 1}})
    for (const float value : through(bad)) EXPECT_FALSE(std::isfinite(value)) << value;
}

// Of Gaussian numbers, per block: the root mean square error of each fp8 type.
TEST(Quantize, ErrorIsThatOfTheMantissa) {
  Workbench bench;
  const Tensor x = bench.random<float>({128, 256}, "x");
  const std::vector<float> values = bench.read<float>(x);
  for (const auto& [dtype, least, most] :
       {std::tuple{DType::F8E4M3, 0.02, 0.03}, std::tuple{DType::F8E5M2, 0.04, 0.06}}) {
    const std::vector<float> got = meant(bench, quantized(bench, x, dtype, {1, 128}), {1, 128});
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(got[i] - values[i], 2);
      size += std::pow(values[i], 2);
    }
    EXPECT_GT(std::sqrt(error / size), least);
    EXPECT_LT(std::sqrt(error / size), most);
  }
}

Transpose transposed(bool yes) {
  return yes ? Transpose::Yes : Transpose::No;
}

// A product of fp8 operands with one scale each has the bits of the f32 product of the numbers
// meant.
TEST(Quantize, MatmulIsTheFloatProductOfTheNumbersMeant) {
  Workbench bench(2);
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const int64_t m = 45, n = 70, k = 290;
      const Quantized a = quantized(bench, bench.random<float>(ta ? Shape{k, m} : Shape{m, k}, "a"),
                                    DType::F8E5M2, {});
      const Quantized b = quantized(bench, bench.random<float>(tb ? Shape{n, k} : Shape{k, n}, "b"),
                                    DType::F8E4M3, {});
      Tensor got = bench.empty<float>({m, n}), wanted = bench.empty<float>({m, n});
      matmul(bench.stream(), got, a.q, transposed(ta), b.q, transposed(tb),
             {.amax_a = a.amax, .amax_b = b.amax});
      matmul(bench.stream(), wanted, bench.make<float>(a.q.shape(), meant(bench, a, {})),
             transposed(ta), bench.make<float>(b.q.shape(), meant(bench, b, {})), transposed(tb),
             {});
      EXPECT_EQ(bench.bytes(got), bench.bytes(wanted)) << ta << tb;
    }
}

// The chain of matmul.h, element by element.
struct BlockOperand {
  std::vector<float> values, scales;
  int64_t columns, grid_columns;
  ScaleBlock block;
  bool is_k_down;

  BlockOperand(Workbench& bench, const Quantized& x, const ScaleBlock& of, bool down)
      : values(static_cast<size_t>(x.q.elements())),
        scales(bench.read<float>(x.amax)),
        columns(x.q.dim(1)),
        grid_columns(x.amax.dim(1)),
        block(of),
        is_k_down(down) {
    copy_floats_to_host(bench.stream(), values, x.q);
    for (float& scale : scales) scale = fp8_scale(scale, x.q.dtype());
  }
  float value(int64_t line, int64_t k) const {
    return values[static_cast<size_t>(is_k_down ? k * columns + line : line * columns + k)];
  }
  float scale(int64_t line, int64_t k) const {
    const int64_t row = block.row_of(is_k_down ? k : line);
    return scales[static_cast<size_t>(row * grid_columns + block.column_of(is_k_down ? line : k))];
  }
};

void expect_block_chain(Workbench& bench, const Shape& mnk, bool ta, bool tb,
                        const ScaleBlock& block_a, const ScaleBlock& block_b) {
  const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
  const Quantized a = quantized(bench, bench.random<float>(ta ? Shape{k, m} : Shape{m, k}, "a"),
                                DType::F8E4M3, block_a);
  const Quantized b = quantized(bench, bench.random<float>(tb ? Shape{n, k} : Shape{k, n}, "b", 2),
                                DType::F8E4M3, block_b);
  Tensor got = bench.random<float>({m, n}, "c");
  std::vector<float> wanted = bench.read<float>(got);
  matmul(bench.stream(), got, a.q, transposed(ta), b.q, transposed(tb),
         {.write = Write::Add,
          .amax_a = a.amax,
          .amax_b = b.amax,
          .block_a = block_a,
          .block_b = block_b});
  const BlockOperand of_a(bench, a, block_a, ta), of_b(bench, b, block_b, !tb);
  const int64_t part = ta && block_a.part_rows > 0 ? block_a.part_rows : k;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float total = 0, sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum = std::fma(of_a.value(i, p), of_b.value(j, p), sum);
        const bool is_end = p + 1 == k || (p + 1) % part == 0 || (p % part + 1) % 128 == 0;
        if (!is_end) continue;
        total = std::fma(of_a.scale(i, p) * of_b.scale(j, p), sum, total);
        sum = 0;
      }
      wanted[static_cast<size_t>(i * n + j)] += total;
    }
  EXPECT_EQ(bench.read<float>(got), wanted)
      << mnk << " " << ta << tb << " threads " << bench.stream().threads();
}

// For shapes that are cut in each way, whatever the number of threads.
TEST(Quantize, MatmulScalesTheSumOfEachBlock) {
  for (const int threads : {1, 2}) {
    Workbench bench(threads);
    for (const Shape& mnk : {Shape{45, 70, 290}, {13, 300, 128}, {200, 33, 100}}) {
      expect_block_chain(bench, mnk, false, true, {1, 128}, {128, 128});   // forward
      expect_block_chain(bench, mnk, false, false, {1, 128}, {128, 128});  // input gradient
      expect_block_chain(bench, mnk, true, false, {128, 1}, {128, 1});     // weight gradient
    }
    // Gathered from parts of 145 tokens.
    expect_block_chain(bench, {45, 70, 290}, true, false, {128, 1, 145}, {128, 1, 145});
  }
}

// Of Gaussian numbers, the Frobenius norm of the error of each of the three products.
TEST(Quantize, BlockProductsOfGaussiansAreWithinFivePercent) {
  Workbench bench(2);
  const int64_t m = 256, n = 128, k = 512;
  for (const auto& [ta, tb, of_a, of_b] :
       {std::tuple{false, true, ScaleBlock{1, 128}, ScaleBlock{128, 128}},
        {false, false, {1, 128}, {128, 128}},
        {true, false, {128, 1}, {128, 1}}}) {
    const Tensor a = bench.random<float>(ta ? Shape{k, m} : Shape{m, k}, "a");
    const Tensor b = bench.random<float>(tb ? Shape{n, k} : Shape{k, n}, "b");
    const Quantized qa = quantized(bench, a, DType::F8E4M3, of_a);
    const Quantized qb = quantized(bench, b, DType::F8E4M3, of_b);
    Tensor c = bench.empty<float>({m, n}), exact = bench.empty<float>({m, n});
    matmul(bench.stream(), c, qa.q, transposed(ta), qb.q, transposed(tb),
           {.amax_a = qa.amax, .amax_b = qb.amax, .block_a = of_a, .block_b = of_b});
    matmul(bench.stream(), exact, a, transposed(ta), b, transposed(tb), {});
    const std::vector<float> got = bench.read<float>(c), wanted = bench.read<float>(exact);
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(got[i] - wanted[i], 2);
      size += std::pow(wanted[i], 2);
    }
    EXPECT_GT(std::sqrt(error / size), 0.03) << ta << tb;
    EXPECT_LT(std::sqrt(error / size), 0.042) << ta << tb;
  }
}

// ZeRO-3 quantises a matrix shard by shard.
TEST(Quantize, PiecesOfAMatrixHaveTheBytesOfTheWhole) {
  Workbench bench(2);
  const Tensor x = bench.random<float>({150, 260}, "x");
  for (const ScaleBlock& block : kBlocks) {
    const Quantized whole = quantized(bench, x, DType::F8E4M3, block);
    std::vector<float> most(static_cast<size_t>(whole.amax.elements()), 0);
    std::vector<std::byte> bytes;
    const std::vector<int64_t> cuts = {0, 100, 300, 33000, 33001, x.elements()};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Tensor piece = x.view(Shape{x.elements()}).slice(cuts[i], cuts[i + 1]);
      const Tensor row = piece.view({1, piece.elements()});
      Tensor amax = bench.empty<float>(whole.amax.shape());
      block_amax(bench.stream(), amax, row, block, {x.shape(), cuts[i]});
      const std::vector<float> own = bench.read<float>(amax);
      for (size_t at = 0; at < most.size(); ++at) most[at] = std::max(most[at], own[at]);
      Tensor q = bench.arena().allocate(Category::Activations, DType::F8E4M3, row.shape());
      quantize(bench.stream(), q, row, whole.amax, block, {x.shape(), cuts[i]});
      const std::vector<std::byte> part = bench.bytes(q);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    EXPECT_EQ(most, bench.read<float>(whole.amax)) << block.rows << " x " << block.columns;
    EXPECT_EQ(bytes, bench.bytes(whole.q)) << block.rows << " x " << block.columns;
  }
}

TEST(Quantize, SaturatesWhatIsBeyondAnOlderScaleButShowsInfinity) {
  Workbench bench;
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = bench.make<float>({1, 5}, {1, -3, 3e38F, infinity, -0.0F});
  const Tensor amax = bench.make<float>({1, 1}, {2});
  Tensor q = bench.arena().allocate(Category::Activations, DType::F8E4M3, {1, 5});
  quantize(bench.stream(), q, x, amax, {});
  std::vector<float> codes(5);
  copy_floats_to_host(bench.stream(), codes, q);
  EXPECT_EQ(codes[0], 224);
  EXPECT_EQ(codes[1], -448);
  EXPECT_EQ(codes[2], 448);
  EXPECT_TRUE(std::isnan(codes[3]));
  EXPECT_TRUE(std::signbit(codes[4]));
}

TEST(Quantize, MatmulRoundsToBf16WithItsEpilogue) {
  Workbench bench;
  const auto bf16_of = [&](const Shape& shape, std::string_view name) {
    Tensor tensor = bench.empty<bf16>(shape);
    copy_floats_from_host(bench.stream(), tensor,
                          bench.read<float>(bench.random<float>(shape, name)));
    return tensor;
  };
  const Quantized x = quantized(bench, bf16_of({9, 40}, "x"), DType::F8E4M3, {});
  const Quantized w = quantized(bench, bf16_of({17, 40}, "w"), DType::F8E4M3, {});
  const Tensor bias = bf16_of({17}, "bias");
  Tensor y = bench.empty<bf16>({9, 17}), before = bench.empty<bf16>({9, 17});
  linear(bench.stream(), y, x.q, w.q,
         {.activation = Activation::GeluTanh,
          .bias = bias,
          .pre_activation = before,
          .amax_a = x.amax,
          .amax_b = w.amax});
  Tensor wide_y = bench.empty<float>({9, 17}), wide_before = bench.empty<float>({9, 17});
  std::vector<float> biases(17);
  copy_floats_to_host(bench.stream(), biases, bias);
  linear(bench.stream(), wide_y, bench.make<float>({9, 40}, meant(bench, x, {})),
         bench.make<float>({17, 40}, meant(bench, w, {})),
         {.activation = Activation::GeluTanh,
          .bias = bench.make<float>({17}, biases),
          .pre_activation = wide_before});
  for (const auto& [narrow, wide] : {std::pair{y, wide_y}, {before, wide_before}}) {
    const std::vector<bf16> got = bench.read<bf16>(narrow);
    const std::vector<float> wanted = bench.read<float>(wide);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].bits, round_nearest<bf16>(wanted[i]).bits) << i;
  }
}

TEST(Quantize, WeightGradientSumsTheRowsOfTheNumbersMeant) {
  Workbench bench(2);
  const Quantized dy = quantized(bench, bench.random<float>({33, 70}, "dy"), DType::F8E5M2, {});
  const Quantized x = quantized(bench, bench.random<float>({33, 20}, "x"), DType::F8E4M3, {});
  Tensor dw = bench.random<float>({70, 20}, "dw"), db = bench.random<float>({70}, "db");
  Tensor wanted_dw = bench.random<float>({70, 20}, "dw"),
         wanted_db = bench.random<float>({70}, "db");
  linear_backward_weight(bench.stream(), dw, db, dy.q, x.q, Write::Add,
                         {.amax_a = dy.amax, .amax_b = x.amax});
  linear_backward_weight(bench.stream(), wanted_dw, wanted_db,
                         bench.make<float>({33, 70}, meant(bench, dy, {})),
                         bench.make<float>({33, 20}, meant(bench, x, {})), Write::Add);
  EXPECT_EQ(bench.bytes(dw), bench.bytes(wanted_dw));
  EXPECT_EQ(bench.bytes(db), bench.bytes(wanted_db));
}

TEST(Quantize, RefusesOtherShapesAndTypes) {
  Workbench bench;
  const Tensor x = bench.random<float>({2, 300}, "x");
  Tensor amax = bench.empty<float>({1, 1}), q = bench.empty<f8e4m3>({2, 300});
  EXPECT_ERROR(block_amax(bench.stream(), amax, x, {1, 128}), Usage, "must be f32 [2, 3]");
  Tensor floats = bench.empty<float>({2, 300});
  EXPECT_ERROR(quantize(bench.stream(), floats, x, amax, {}), Usage, "must be f8e4m3 or f8e5m2");
  Tensor c = bench.empty<float>({2, 2});
  EXPECT_ERROR(matmul(bench.stream(), c, q, Transpose::No, q, Transpose::Yes, {}), Usage, "amax_a");
  EXPECT_ERROR(matmul(bench.stream(), c, q, Transpose::No, x, Transpose::Yes,
                      {.amax_a = amax, .amax_b = amax}),
               Usage, "b is f32 with a in fp8");
  Tensor per_row = bench.empty<float>({2, 3}), whole = bench.empty<float>({1, 1});
  EXPECT_ERROR(matmul(bench.stream(), c, q, Transpose::No, q, Transpose::Yes,
                      {.amax_a = per_row, .amax_b = whole, .block_a = {1, 128}}),
               Usage, "of b for 0 (parts of 0), must be the same");
  EXPECT_ERROR(matmul(bench.stream(), c, q, Transpose::No, q, Transpose::Yes,
                      {.write = Write::Chain,
                       .amax_a = per_row,
                       .amax_b = per_row,
                       .block_a = {1, 128},
                       .block_b = {1, 128}}),
               Usage, "Write::Chain is not possible");
  EXPECT_ERROR(block_amax(bench.stream(), amax, x, {}, {{3, 200}, 0}), Usage,
               "must be elements of it in one row");
}

}  // namespace
}  // namespace sextant

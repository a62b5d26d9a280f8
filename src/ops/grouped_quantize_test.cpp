// Experts in fp8: each has the scales, and products have the bits, of its own rows alone; how far
// that is from products in f64.
#include "ops/grouped_quantize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr ScaleBlock kRowTile{1, kScaleBlock}, kTokenTile{kScaleBlock, 1};

struct ScaledRows {
  Tensor q, amax;
  ScaleBlock block = {};
};

// Quantised as any matrix is.
ScaledRows quantized_matrix(Workbench& bench, const Tensor& x, DType dtype,
                            const ScaleBlock& block) {
  ScaledRows out{bench.arena().allocate(Category::Activations, dtype, x.shape()),
                 bench.empty<float>(block.grid(x.shape())), block};
  block_amax(bench.stream(), out.amax, x, block);
  quantize(bench.stream(), out.q, x, out.amax, block);
  return out;
}

ScaledRows quantized_rows(Workbench& bench, const Tensor& x, DType dtype, const Tensor& offsets,
                          const ScaleBlock& block) {
  ScaledRows out{bench.arena().allocate(Category::Activations, dtype, x.shape()),
                 bench.empty<float>(grouped_grid(x.shape(), offsets.dim(0) - 1, block)), block};
  grouped_amax(bench.stream(), out.amax, x, offsets, block);
  grouped_quantize(bench.stream(), out.q, x, out.amax, offsets, block);
  return out;
}

GroupedScales scales_of_pair(const ScaledRows& a, const ScaledRows& b) {
  return {a.amax, b.amax, a.block, b.block};
}

Epilogue epilogue_of_pair(const ScaledRows& a, const ScaledRows& b) {
  return {.amax_a = a.amax, .amax_b = b.amax, .block_a = a.block, .block_b = b.block};
}

// Rows, of which an expert has `at[e]` to `at[e + 1]`, a weight of each, and the products of both
// recipes: with a scale of each expert, and with blocks.
struct ExpertCase {
  int64_t rows, out, in;
  std::vector<int32_t> at;
  Tensor x, weight, dy, offsets, y, dx, dweight;

  ExpertCase(Workbench& bench, std::vector<int32_t> ends, int64_t rows, int64_t out, int64_t in)
      : rows(rows), out(out), in(in), at(std::move(ends)) {
    x = bench.random<float>({rows, in}, "x");
    weight = bench.random<float>({experts() * out, in}, "weight");
    dy = bench.random<float>({rows, out}, "dy");
    offsets = bench.make<int32_t>({experts() + 1}, at);
    y = bench.empty<float>({rows, out});
    dx = bench.empty<float>({rows, in});
    dweight = bench.random<float>({experts() * out, in}, "dweight");
  }
  int64_t experts() const { return static_cast<int64_t>(at.size()) - 1; }
  Range rows_of(int64_t e) const {
    return {at[static_cast<size_t>(e)], at[static_cast<size_t>(e) + 1]};
  }

  void multiply(Workbench& bench, bool has_blocks) {
    Stream& stream = bench.stream();
    const auto rows_by = [&](const Tensor& rows, DType dtype) {
      return has_blocks ? quantized_matrix(bench, rows, DType::F8E4M3, kRowTile)
                        : quantized_rows(bench, rows, dtype, offsets, {});
    };
    const ScaleBlock blocks =
        has_blocks ? ScaleBlock{kScaleBlock, kScaleBlock, out} : ScaleBlock{out, 0};
    const ScaledRows w = quantized_matrix(bench, weight, DType::F8E4M3, blocks);
    const ScaledRows a = rows_by(x, DType::F8E4M3), g = rows_by(dy, DType::F8E5M2);
    grouped_linear(stream, y, a.q, w.q, offsets, scales_of_pair(a, w));
    grouped_linear_backward_input(stream, dx, g.q, w.q, offsets, scales_of_pair(g, w));
    const ScaledRows xt =
        has_blocks ? quantized_rows(bench, x, DType::F8E4M3, offsets, kTokenTile) : a;
    const ScaledRows gt =
        has_blocks ? quantized_rows(bench, dy, DType::F8E4M3, offsets, kTokenTile) : g;
    grouped_linear_backward_weight(stream, dweight, gt.q, xt.q, offsets, Write::Replace,
                                   scales_of_pair(gt, xt));
  }
};

// The products of one expert's rows and weight, without the others.
struct AloneProducts {
  Tensor y, dx, dweight;
  AloneProducts(Workbench& bench, const ExpertCase& c, int64_t e, bool has_blocks) {
    const Tensor x = c.x.slice(c.rows_of(e)), dy = c.dy.slice(c.rows_of(e));
    y = bench.empty<float>({x.dim(0), c.out});
    dx = bench.empty<float>({x.dim(0), c.in});
    dweight = bench.empty<float>({c.out, c.in});
    const DType gradient = has_blocks ? DType::F8E4M3 : DType::F8E5M2;
    const ScaleBlock tile = has_blocks ? kRowTile : ScaleBlock{},
                     column = has_blocks ? kTokenTile : ScaleBlock{};
    const ScaledRows w = quantized_matrix(bench, c.weight.slice(e * c.out, (e + 1) * c.out),
                                          DType::F8E4M3, has_blocks ? kWeightBlock : ScaleBlock{});
    const ScaledRows a = quantized_matrix(bench, x, DType::F8E4M3, tile),
                     g = quantized_matrix(bench, dy, gradient, tile);
    const ScaledRows xt = quantized_matrix(bench, x, DType::F8E4M3, column),
                     gt = quantized_matrix(bench, dy, gradient, column);
    Tensor none;
    linear(bench.stream(), y, a.q, w.q, epilogue_of_pair(a, w));
    linear_backward_input(bench.stream(), dx, g.q, w.q, epilogue_of_pair(g, w));
    linear_backward_weight(bench.stream(), dweight, none, gt.q, xt.q, Write::Replace,
                           epilogue_of_pair(gt, xt));
  }
};

// Tiles begin in the middle of others', an expert has no rows, the last rows belong to none.
TEST(GroupedQuantize, AnExpertHasTheBitsOfItsRowsAlone) {
  Workbench bench(2);
  for (const bool has_blocks : {false, true}) {
    ExpertCase c(bench, {0, 130, 130, 131, 387}, 400, 150, 140);
    c.multiply(bench, has_blocks);
    for (int64_t e = 0; e < c.experts(); ++e) {
      const Tensor own = c.dweight.slice(e * c.out, (e + 1) * c.out);
      if (c.rows_of(e).size() == 0) {
        for (const float value : bench.read<float>(own)) EXPECT_EQ(value, 0);
        continue;
      }
      const AloneProducts alone(bench, c, e, has_blocks);
      EXPECT_EQ(bench.read<float>(c.y.slice(c.rows_of(e))), bench.read<float>(alone.y)) << e;
      EXPECT_EQ(bench.read<float>(c.dx.slice(c.rows_of(e))), bench.read<float>(alone.dx)) << e;
      EXPECT_EQ(bench.read<float>(own), bench.read<float>(alone.dweight)) << e;
    }
  }
}

TEST(GroupedQuantize, BitsDoNotDependOnThreads) {
  const auto bits = [](int threads, bool has_blocks) {
    Workbench bench(threads);
    ExpertCase c(bench, {0, 40, 200, 301}, 301, 65, 130);
    c.multiply(bench, has_blocks);
    return bench.read<float>(c.dweight);
  };
  for (const bool has_blocks : {false, true}) EXPECT_EQ(bits(1, has_blocks), bits(3, has_blocks));
}

double frobenius(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The product of an expert in f64, against both recipes: their distance over the size, in the
// Frobenius norm. The gradients of one expert are a millionth of those of the other.
TEST(GroupedQuantize, ErrorsAgainstDoublePrecisionAreThoseOfTheFormats) {
  Workbench bench(2);
  ExpertCase c(bench, {0, 256, 512}, 512, 128, 256);
  std::vector<float> gradients(static_cast<size_t>(c.dy.elements()));
  copy_floats_to_host(bench.stream(), gradients, c.dy);
  for (size_t i = gradients.size() / 2; i < gradients.size(); ++i) gradients[i] *= 1e-6F;
  copy_floats_from_host(bench.stream(), c.dy, gradients);
  const auto doubles = [&](const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    copy_floats_to_host(bench.stream(), values, tensor);
    return bench.make<double>(tensor.shape(), std::vector<double>(values.begin(), values.end()));
  };
  Tensor y = bench.empty<double>({c.rows, c.out}), dx = bench.empty<double>({c.rows, c.in}),
         dweight = bench.empty<double>(c.weight.shape());
  grouped_linear(bench.stream(), y, doubles(c.x), doubles(c.weight), c.offsets);
  grouped_linear_backward_input(bench.stream(), dx, doubles(c.dy), doubles(c.weight), c.offsets);
  grouped_linear_backward_weight(bench.stream(), dweight, doubles(c.dy), doubles(c.x), c.offsets,
                                 Write::Replace);
  const auto error = [&](const Tensor& narrow, const Tensor& exact, const Range& rows) {
    const std::vector<double> wanted = bench.read<double>(exact.slice(rows));
    std::vector<double> apart = bench.read<double>(doubles(narrow.slice(rows)));
    for (size_t i = 0; i < apart.size(); ++i) apart[i] -= wanted[i];
    return frobenius(apart) / frobenius(wanted);
  };
  for (const bool has_blocks : {false, true}) {
    c.multiply(bench, has_blocks);
    const double most = has_blocks ? 0.045 : 0.07;  // E5M2 has one bit less
    for (int64_t e = 0; e < 2; ++e) {
      const Range weights{e * c.out, (e + 1) * c.out};
      EXPECT_LT(error(c.y, y, c.rows_of(e)), 0.045) << e;
      EXPECT_LT(error(c.dx, dx, c.rows_of(e)), most) << e;
      EXPECT_LT(error(c.dweight, dweight, weights), most) << e;
      EXPECT_GT(error(c.dweight, dweight, weights), 0.02) << e;
    }
  }
}

TEST(GroupedQuantize, RefusesOtherBlocksAndProductsWithoutScales) {
  Workbench bench;
  ExpertCase c(bench, {0, 3, 6}, 6, 4, 5);
  Tensor amax = bench.empty<float>({6, 1});
  EXPECT_ERROR(grouped_amax(bench.stream(), amax, c.x, c.offsets, kRowTile), Usage,
               "blocks of 1 x 128, must be 128 x 1 or of all rows");
  EXPECT_ERROR(grouped_amax(bench.stream(), amax, c.x, c.offsets, {}), Usage, "must be f32 [2, 1]");
  const ScaledRows q = quantized_rows(bench, c.x, DType::F8E4M3, c.offsets, {});
  EXPECT_ERROR(grouped_linear(bench.stream(), c.y, q.q, c.weight, c.offsets), Usage,
               "fp8 operands have scales, others none; the operands are f8e4m3 and f32");
}

}  // namespace
}  // namespace sextant

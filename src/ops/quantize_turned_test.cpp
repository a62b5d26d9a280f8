#include "ops/quantize_turned.h"

#include <gtest/gtest.h>

#include "ops/linear.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr ScaleBlock kOwnTile{1, kScaleBlock}, kTurnedColumnTile{kScaleBlock, 1};

Tensor codes_for(Workbench& bench, DType dtype, const Shape& shape) {
  return bench.arena().allocate(Category::Activations, dtype, shape);
}

template <class T>
std::vector<T> turned_over(const std::vector<T>& values, int64_t rows, int64_t columns) {
  std::vector<T> out(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      out[static_cast<size_t>(column * rows + row)] =
          values[static_cast<size_t>(row * columns + column)];
  return out;
}

TEST(QuantizeTurned, GivesWhatQuantizeGivesAndItsTranspose) {
  Workbench bench(2);
  const int64_t rows = 144, columns = 272;
  const Tensor x = bench.random<float>({rows, columns}, "x", 3);
  Tensor amax = bench.empty<float>({1, 1});
  block_amax(bench.stream(), amax, x, {});
  for (const DType dtype : {DType::F8E4M3, DType::F8E5M2}) {
    Tensor plain = codes_for(bench, dtype, x.shape()), q = codes_for(bench, dtype, x.shape());
    Tensor turned = codes_for(bench, dtype, {columns, rows}),
           again = codes_for(bench, dtype, {columns, rows});
    Tensor none, rows_alone = codes_for(bench, dtype, x.shape());
    quantize(bench.stream(), plain, x, amax, {});
    quantize_turned(bench.stream(), q, turned, amax, x);
    quantize_turned(bench.stream(), none, again, amax, x);
    quantize_turned(bench.stream(), rows_alone, none, amax, x);
    EXPECT_EQ(bench.bytes(q), bench.bytes(plain));
    EXPECT_EQ(bench.bytes(rows_alone), bench.bytes(plain));
    EXPECT_EQ(bench.bytes(turned), turned_over(bench.bytes(plain), rows, columns));
    EXPECT_EQ(bench.bytes(again), bench.bytes(turned));
  }
}

TEST(QuantizeTurned, TilesAreThoseOfEachForm) {
  Workbench bench(2);
  const int64_t rows = 144, columns = 272;
  const Tensor x = bench.random<float>({rows, columns}, "x", 3);
  Tensor q = codes_for(bench, DType::F8E4M3, x.shape());
  Tensor turned = codes_for(bench, DType::F8E4M3, {columns, rows});
  Tensor amax = bench.empty<float>(kOwnTile.grid(x.shape()));
  Tensor turned_amax = bench.empty<float>(kOwnTile.grid(turned.shape()));
  quantize_turned_tiles(bench.stream(), q, amax, turned, turned_amax, x);
  for (const bool is_turned : {false, true}) {
    const ScaleBlock block = is_turned ? kTurnedColumnTile : kOwnTile;
    const Shape grid = block.grid(x.shape());
    Tensor found = bench.empty<float>(grid), plain = codes_for(bench, DType::F8E4M3, x.shape());
    block_amax(bench.stream(), found, x, block);
    quantize(bench.stream(), plain, x, found, block);
    if (is_turned) {
      EXPECT_EQ(bench.bytes(turned), turned_over(bench.bytes(plain), rows, columns));
      EXPECT_EQ(bench.read<float>(turned_amax),
                turned_over(bench.read<float>(found), grid[0], grid[1]));
    } else {
      EXPECT_EQ(bench.bytes(q), bench.bytes(plain));
      EXPECT_EQ(bench.read<float>(amax), bench.read<float>(found));
    }
  }
}

TEST(QuantizeTurned, TakesTheDelayedScaleAndRaisesWhatWasFound) {
  Workbench bench;
  std::vector<float> values(256, 0.25F);
  values[77] = -5;
  const Tensor x = bench.make<float>({16, 16}, values), used = bench.make<float>({1, 1}, {7});
  Tensor turned = codes_for(bench, DType::F8E4M3, {16, 16}), amax = bench.empty<float>({1, 1}),
         none;
  for (const auto& [before, after] : {std::pair{3.0F, 5.0F}, {6.0F, 6.0F}}) {
    Tensor found = bench.make<float>({1, 1}, {before});
    quantize_turned(bench.stream(), none, turned, amax, x, {.delayed = {used, found}});
    EXPECT_EQ(bench.read<float>(found)[0], after);
    EXPECT_EQ(bench.read<float>(amax)[0], 7);
  }
  std::vector<float> got(256);
  copy_floats_to_host(bench.stream(), got, turned);
  EXPECT_EQ(got[0], 16);
  EXPECT_EQ(got[13 * 16 + 4], -320);  // element 4, 13 of x
}

// What an activation makes of x is that of a product with the unit matrix, which is x.
TEST(QuantizeTurned, TakesWhatAnActivationMakesOfX) {
  Workbench bench(2);
  const int64_t rows = 144, columns = 272;
  const Tensor x = bench.random<float>({rows, columns}, "x", 3);
  const Tensor before = bench.random<float>({rows, columns}, "before", 2);
  std::vector<float> ones(static_cast<size_t>(columns * columns), 0);
  for (int64_t i = 0; i < columns; ++i) ones[static_cast<size_t>(i * columns + i)] = 1;
  const Tensor unit = bench.make<float>({columns, columns}, ones);
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact})
    for (const bool is_backward : {false, true}) {
      const Activated activated{activation, is_backward ? before : Tensor()};
      Tensor formed = bench.empty<float>(x.shape());
      if (is_backward)
        linear_backward_input(bench.stream(), formed, x, unit,
                              {.activation = activation, .backward_of = before});
      else
        linear(bench.stream(), formed, x, unit, {.activation = activation});
      Tensor own = bench.empty<float>(x.shape());
      activate(bench.stream(), own, x, activated);
      EXPECT_EQ(bench.bytes(own), bench.bytes(formed));
      Tensor wanted = bench.empty<float>({1, 1}), amax = bench.empty<float>({1, 1});
      block_amax(bench.stream(), wanted, formed, {});
      activated_amax(bench.stream(), amax, x, activated);
      EXPECT_EQ(bench.read<float>(amax), bench.read<float>(wanted));
      const auto codes = [&](const Tensor& from, const Activated& by) {
        Tensor q = codes_for(bench, DType::F8E4M3, x.shape()),
               tiles = codes_for(bench, q.dtype(), x.shape());
        Tensor turned = codes_for(bench, q.dtype(), {columns, rows}),
               turned_tiles = codes_for(bench, q.dtype(), {columns, rows});
        Tensor amaxes = bench.empty<float>(kOwnTile.grid(x.shape()));
        Tensor turned_amaxes = bench.empty<float>(kOwnTile.grid(turned.shape()));
        quantize_turned(bench.stream(), q, turned, wanted, from, {.activated = by});
        quantize_turned_tiles(bench.stream(), tiles, amaxes, turned_tiles, turned_amaxes, from,
                              {.activated = by});
        return std::vector{bench.bytes(q),      bench.bytes(turned),
                           bench.bytes(tiles),  bench.bytes(turned_tiles),
                           bench.bytes(amaxes), bench.bytes(turned_amaxes)};
      };
      EXPECT_TRUE(codes(x, activated) == codes(formed, {}));
    }
}

// The weight gradient does not depend on how its operands lie.
TEST(QuantizeTurned, WeightGradientsOfBothFormsHaveTheSameBits) {
  Workbench bench(2);
  const int64_t tokens = 144, out = 48, in = 80;
  const Tensor dy = bench.random<float>({tokens, out}, "dy");
  const Tensor x = bench.random<float>({tokens, in}, "x");
  for (const bool has_tiles : {false, true}) {
    struct Forms {
      Tensor rows, rows_amax, turned, turned_amax;
    };
    const auto forms_of = [&](const Tensor& from, DType dtype) {
      const ScaleBlock block = has_tiles ? kTurnedColumnTile : ScaleBlock{};
      const Shape over{from.dim(1), from.dim(0)};
      Forms forms{codes_for(bench, dtype, from.shape()),
                  bench.empty<float>(block.grid(from.shape())),
                  codes_for(bench, dtype, over),
                  {}};
      block_amax(bench.stream(), forms.rows_amax, from, block);
      quantize(bench.stream(), forms.rows, from, forms.rows_amax, block);
      Tensor none, no_amax;
      if (has_tiles) {
        forms.turned_amax = bench.empty<float>(kOwnTile.grid(over));
        quantize_turned_tiles(bench.stream(), none, no_amax, forms.turned, forms.turned_amax, from);
      } else {
        forms.turned_amax = forms.rows_amax;
        quantize_turned(bench.stream(), none, forms.turned, forms.turned_amax, from);
      }
      return forms;
    };
    const Forms of_dy = forms_of(dy, has_tiles ? DType::F8E4M3 : DType::F8E5M2);
    const Forms of_x = forms_of(x, DType::F8E4M3);
    const auto gradient = [&](bool turned_dy, bool turned_x) {
      const auto block_of = [&](bool is_turned) {
        return !has_tiles ? ScaleBlock{} : is_turned ? kOwnTile : kTurnedColumnTile;
      };
      Tensor dw = bench.empty<float>({out, in}), none;
      linear_backward_weight(bench.stream(), dw, none, turned_dy ? of_dy.turned : of_dy.rows,
                             turned_x ? of_x.turned : of_x.rows, Write::Replace,
                             {.amax_a = turned_dy ? of_dy.turned_amax : of_dy.rows_amax,
                              .amax_b = turned_x ? of_x.turned_amax : of_x.rows_amax,
                              .block_a = block_of(turned_dy),
                              .block_b = block_of(turned_x)},
                             turned_dy ? Transpose::Yes : Transpose::No,
                             turned_x ? Transpose::Yes : Transpose::No);
      return bench.bytes(dw);
    };
    const auto wanted = gradient(false, false);
    EXPECT_TRUE(gradient(true, true) == wanted) << has_tiles;
    EXPECT_TRUE(gradient(true, false) == wanted) << has_tiles;
    EXPECT_TRUE(gradient(false, true) == wanted) << has_tiles;
  }
}

// As the sums of the rows of the other form, but in another order.
TEST(QuantizeTurned, SumsOfTilesMakeTheGradientOfABias) {
  Workbench bench(2);
  const int64_t tokens = 144, out = 48;
  const Tensor dy = bench.random<float>({tokens, out}, "dy", 3);
  for (const bool has_tiles : {false, true})
    for (const Write write : {Write::Replace, Write::Add}) {
      const ScaleBlock block = has_tiles ? kTurnedColumnTile : ScaleBlock{};
      const Shape over{out, tokens};
      Tensor rows = codes_for(bench, DType::F8E4M3, dy.shape());
      Tensor turned = codes_for(bench, DType::F8E4M3, over), none, no_amax;
      Tensor amax = bench.empty<float>(block.grid(dy.shape()));
      Tensor sums = bench.empty<float>({2, out});
      block_amax(bench.stream(), amax, dy, block);
      quantize(bench.stream(), rows, dy, amax, block);
      if (has_tiles) {
        Tensor turned_amax = bench.empty<float>(kOwnTile.grid(over));
        quantize_turned_tiles(bench.stream(), none, no_amax, turned, turned_amax, dy,
                              {.sums = sums});
      } else {
        quantize_turned(bench.stream(), none, turned, amax, dy, {.sums = sums});
      }
      Tensor db = bench.random<float>({out}, "db"), wanted = bench.random<float>({out}, "db");
      Tensor dw = bench.random<float>({out, out}, "dw");
      linear_backward_weight(bench.stream(), dw, wanted, rows, rows, write,
                             {.amax_a = amax, .amax_b = amax, .block_a = block, .block_b = block});
      sum_turned_tiles(bench.stream(), db, sums, write);
      const std::vector<float> got = bench.read<float>(db), expected = bench.read<float>(wanted);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-4) << i;
    }
}

TEST(QuantizeTurned, RefusesOddSizesAndOtherShapes) {
  Workbench bench;
  Tensor none, amax = bench.empty<float>({1, 1});
  Tensor turned = codes_for(bench, DType::F8E4M3, {16, 24});
  EXPECT_ERROR(quantize_turned(bench.stream(), none, turned, amax, bench.empty<float>({24, 16})),
               Usage, "x is [24, 16], its sizes must be multiples of 16");
  EXPECT_ERROR(quantize_turned(bench.stream(), none, turned, amax, bench.empty<float>({16, 32})),
               Usage, "turned is f8e4m3 [16, 24], must be f8e4m3 [32, 16]");
  Tensor fits = codes_for(bench, DType::F8E4M3, {16, 16}), tiles = bench.empty<float>({16, 1});
  EXPECT_ERROR(
      quantize_turned_tiles(bench.stream(), none, tiles, fits, tiles, bench.empty<float>({16, 16})),
      Usage, "q and amax must both be given or none");
  EXPECT_ERROR(quantize_turned(bench.stream(), none, none, amax, bench.empty<float>({16, 16})),
               Usage, "q is");
  EXPECT_ERROR(activated_amax(bench.stream(), amax, bench.empty<float>({16, 16}),
                              {Activation::None, bench.empty<float>({16, 16})}),
               Usage, "backward_of is given, but no activation");
  EXPECT_ERROR(
      activated_amax(bench.stream(), amax, bench.empty<float>({16, 8}), {Activation::GeluTanh}),
      Usage, "x is [16, 8], its sizes must be multiples of 16");
  EXPECT_ERROR(quantize_turned(bench.stream(), fits, none, amax, bench.empty<float>({16, 16}),
                               {.sums = bench.empty<float>({1, 16})}),
               Usage, "sums are given, but turned is empty");
  Tensor y = bench.empty<float>({4, 4});
  EXPECT_ERROR(activate(bench.stream(), y, y, {}), Usage, "activate: no activation is given");
  const Tensor x = bench.empty<float>({4, 3});
  Tensor dw = bench.empty<float>({2, 3});
  EXPECT_ERROR(linear_backward_weight(bench.stream(), dw, none, bench.empty<float>({2, 4}), x,
                                      Write::Replace, {}, Transpose::Yes),
               Usage, "dy or x is transposed in f32, only fp8 may be");
}

}  // namespace
}  // namespace sextant

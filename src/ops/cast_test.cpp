#include "ops/cast.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

constexpr DType kFloating[] = {DType::F64, DType::F32,    DType::BF16,
                               DType::F16, DType::F8E4M3, DType::F8E5M2};

Tensor cast_to(Workbench& bench, DType dtype, const Tensor& x,
               Rounding rounding = Rounding::NearestEven, uint64_t seed = 0, int64_t first = 0) {
  Tensor y = bench.arena().allocate(Category::Activations, dtype, x.shape());
  cast(bench.stream(), y, x, rounding, seed, first);
  return y;
}

TEST(Cast, RoundsToNearestEvenByHand) {
  Workbench bench;
  // bf16 has 8 bits: 257 lies between 256 and 258, 259 between 258 and 260; even last bits win.
  const Tensor x = bench.make<float>({4}, {1, 257, 259, 3.4e38F});
  const Tensor back = cast_to(bench, DType::F32, cast_to(bench, DType::BF16, x));
  EXPECT_EQ(bench.read<float>(back),
            (std::vector<float>{1, 256, 260, std::numeric_limits<float>::infinity()}));
  // The fp8 types saturate: 448 and 57344 are their largest.
  const Tensor large = bench.make<float>({2}, {1e6F, -1e6F});
  EXPECT_EQ(bench.read<float>(cast_to(bench, DType::F32, cast_to(bench, DType::F8E4M3, large))),
            (std::vector<float>{448, -448}));
  EXPECT_EQ(bench.read<float>(cast_to(bench, DType::F32, cast_to(bench, DType::F8E5M2, large))),
            (std::vector<float>{57344, -57344}));
}

// Every value here is in every type, so each path must give it back under both roundings.
TEST(Cast, AnyTypeToAnyOtherKeepsWhatBothCanHold) {
  Workbench bench(2);
  std::vector<float> values;
  for (int i = 0; i < 999; ++i) values.push_back(static_cast<float>(i % 8 - 3) * 0.5F);
  const Tensor start = bench.make<float>({999}, values);
  for (const DType from : kFloating)
    for (const DType to : kFloating)
      for (const Rounding rounding : {Rounding::NearestEven, Rounding::Stochastic}) {
        const Tensor x = cast_to(bench, from, start);
        const Tensor y = cast_to(bench, to, x, rounding, 5);
        EXPECT_EQ(bench.read<float>(cast_to(bench, DType::F32, y)), values)
            << name_of(from) << " to " << name_of(to);
      }
}

TEST(Cast, StochasticTakesANeighbourAndIsRightOnAverage) {
  Workbench bench(2);
  const int64_t count = 40000;
  const float value = 1 + 0.3F / 128;  // three tenths of the way from 1 to the next bf16
  const Tensor x =
      bench.make<float>({count}, std::vector<float>(static_cast<size_t>(count), value));
  const Tensor y = cast_to(bench, DType::BF16, x, Rounding::Stochastic, 11);
  int64_t upper = 0;
  for (const float got : bench.read<float>(cast_to(bench, DType::F32, y))) {
    EXPECT_TRUE(got == 1 || got == 1 + 1.0F / 128) << got;
    upper += got > 1 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(upper) / static_cast<double>(count), 0.3, 0.01);
}

TEST(Cast, StochasticBitsOfASliceAreThoseOfTheWhole) {
  Workbench bench;
  const Tensor x = bench.random<float>({1000}, "x");
  const std::vector<std::byte> whole =
      bench.bytes(cast_to(bench, DType::BF16, x, Rounding::Stochastic, 11, 3));
  const std::vector<std::byte> part =
      bench.bytes(cast_to(bench, DType::BF16, x.slice(333, 700), Rounding::Stochastic, 11, 336));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 2 * 333));
  EXPECT_NE(bench.bytes(cast_to(bench, DType::BF16, x, Rounding::Stochastic, 12, 3)), whole);
}

TEST(Cast, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor x = bench.random<float>({100003}, "x");
    return bytes_of(bench, cast_to(bench, DType::BF16, x),
                    cast_to(bench, DType::F16, x, Rounding::Stochastic, 7));
  });
}

TEST(Cast, RefusesIntegersAndOtherShapes) {
  Workbench bench;
  const Tensor x = bench.empty<float>({4});
  Tensor whole = bench.empty<int32_t>({4}), small = bench.empty<bf16>({3});
  EXPECT_ERROR(cast(bench.stream(), whole, x, Rounding::NearestEven, 0, 0), Usage,
               "y is i32 [4], must be of a floating type");
  EXPECT_ERROR(cast(bench.stream(), small, whole, Rounding::NearestEven, 0, 0), Usage, "x is i32");
  EXPECT_ERROR(cast(bench.stream(), small, x, Rounding::NearestEven, 0, 0), Usage,
               "y is bf16 [3], must be bf16 [4]");
  Tensor y = bench.empty<bf16>({4});
  EXPECT_ERROR(cast(bench.stream(), y, x, Rounding::Stochastic, 0, -1), Usage,
               "first_element is -1");
}

}  // namespace
}  // namespace sextant

#include "ops/random_fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "support/expect_error.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

class RandomFill : public testing::Test {
 protected:
  std::vector<float> drawn(int64_t count, int64_t first) {
    Tensor y = arena_.allocate(Category::Weights, DType::F32, {count});
    fill_normal(stream_, y, 7, "a.weight", 0.5, first);
    std::vector<float> host(static_cast<size_t>(count));
    copy_to_host<float>(stream_, host, y);
    return host;
  }

  Arena arena_{Device{DeviceKind::Guarded}, int64_t{64} << 20};
  Stream stream_{arena_, 2};
};

TEST_F(RandomFill, GivesTheNumbersOfTheNamedGenerator) {
  const Random random(7, "a.weight");
  const std::vector<float> y = drawn(9, 3);
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], static_cast<float>(0.5 * random.normal(3 + i)));
}

TEST_F(RandomFill, ASliceGetsTheValuesOfTheWhole) {
  const std::vector<float> whole = drawn(20000, 0);
  const std::vector<float> part = drawn(501, 9999);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[9999 + i]);
}

TEST_F(RandomFill, HasTheAskedMeanAndDeviation) {
  double sum = 0, squares = 0;
  const std::vector<float> y = drawn(100000, 0);
  for (const float value : y) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.5, 0.01);
}

TEST_F(RandomFill, FillsWithAConstant) {
  Tensor y = arena_.allocate(Category::Weights, DType::F64, {5});
  fill_constant(stream_, y, 1.5);
  std::vector<double> host(5);
  copy_to_host<double>(stream_, host, y);
  EXPECT_EQ(host, std::vector<double>(5, 1.5));
}

TEST_F(RandomFill, RefusesIntegers) {
  Tensor y = arena_.allocate(Category::Weights, DType::I32, {5});
  EXPECT_ERROR(fill_constant(stream_, y, 1), Usage, "must be f32, bf16, f16 or f64");
  EXPECT_ERROR(fill_normal(stream_, y, 0, "x", 1, 0), Usage, "must be f32, bf16, f16 or f64");
}

}  // namespace
}  // namespace sextant

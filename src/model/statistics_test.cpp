#include "model/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/workbench.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

class StatisticsTest : public testing::Test {
 protected:
  Tensor tensor(int64_t size, DType dtype = DType::F32) {
    Tensor made = bench_.arena().allocate(Category::Activations, dtype, {size});
    std::vector<float> values;
    for (int64_t i = 0; i < size; ++i)
      values.push_back(1 / std::sqrt(static_cast<float>(i) + 1.7F));
    copy_floats_from_host(stream_, made, values);
    return made;
  }
  using Names = std::vector<std::string>;

  Workbench bench_;
  Stream& stream_ = bench_.stream();
};

TEST_F(StatisticsTest, OnlyThoseWithoutABitBeyondF16AreNarrow) {
  Statistics right(Statistics::Rounding::None), wrong(Statistics::Rounding::ToBf16);
  for (Statistics* statistics : {&right, &wrong}) {
    statistics->watch();
    Tensor values = tensor(16);
    statistics->round(stream_, values);
    statistics->read(stream_, "norm.weight", values);
    EXPECT_EQ(statistics->narrow(), statistics == &right ? Names{} : Names{"norm.weight"});
  }
  // One value with more bits is enough.
  wrong.read(stream_, "norm.weight", tensor(1));
  EXPECT_EQ(wrong.narrow(), Names{});
}

TEST_F(StatisticsTest, ANarrowTypeIsNarrowWhateverItsValues) {
  Statistics statistics(Statistics::Rounding::None);
  statistics.watch();
  statistics.read(stream_, "a", tensor(1, DType::BF16));
  statistics.read(stream_, "b", tensor(64, DType::F64));
  EXPECT_EQ(statistics.narrow(), Names{"a"});
}

// Such as of a query without keys; and few values may be round by chance.
TEST_F(StatisticsTest, ZerosInfinitiesAndFewValuesSayNothing) {
  Statistics statistics(Statistics::Rounding::ToBf16);
  statistics.watch();
  Tensor few = tensor(15), special = tensor(32);
  statistics.round(stream_, few);
  copy_floats_from_host(stream_, special, std::vector<float>(32, -INFINITY));
  statistics.read(stream_, "few", few);
  statistics.read(stream_, "special", special);
  copy_floats_from_host(stream_, special, std::vector<float>(32, 0));
  statistics.read(stream_, "special", special);
  EXPECT_EQ(statistics.narrow(), Names{});
}

TEST_F(StatisticsTest, NothingIsReadUnlessWatched) {
  Statistics statistics(Statistics::Rounding::None);
  statistics.read(stream_, "a", tensor(1, DType::BF16));
  EXPECT_EQ(statistics.narrow(), Names{});
}

}  // namespace
}  // namespace sextant

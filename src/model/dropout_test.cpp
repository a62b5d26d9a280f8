#include "model/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/alone.h"
#include "support/tiny_model.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kHidden = 40;

class DropoutPart : public testing::Test {
 protected:
  Micro numbered(int64_t batch, int64_t first_row) {
    Micro micro = tiny_micro(stream(), batch, 6, 19);
    number_tokens(stream(), micro, first_row);
    return micro;
  }
  // Dropout applied to ones.
  std::vector<float> left(const Dropout& dropout, const Micro& micro) {
    Tensor y = bench_.make<float>({micro.size(), kHidden}, ones(micro));
    dropout.forward(stream(), micro, alone_.tensor, y);
    return bench_.read<float>(y);
  }
  static std::vector<float> ones(const Micro& micro) {
    return std::vector<float>(static_cast<size_t>(micro.size() * kHidden), 1);
  }
  Stream& stream() { return bench_.stream(); }

  Workbench bench_{2};
  Alone alone_;
};

TEST_F(DropoutPart, DropsItsShareAndScalesTheRest) {
  const std::vector<float> values = left({"place", 0.3, 1}, numbered(64, 0));
  const auto size = static_cast<double>(values.size());
  const auto dropped = static_cast<double>(std::ranges::count(values, 0.f));
  EXPECT_NEAR(dropped / size, 0.3, 5 * std::sqrt(0.3 * 0.7 / size));
  for (const float value : values) EXPECT_TRUE(value == 0 || value == 1 / 0.7f) << value;
}

TEST_F(DropoutPart, APartOfABatchHasTheMaskOfTheWhole) {
  const Dropout dropout{"place", 0.5, 1};
  const std::vector<float> whole = left(dropout, numbered(4, 0)),
                           part = left(dropout, numbered(2, 1));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 6 * kHidden));
}

TEST_F(DropoutPart, PlacesSeedsAndStepsHaveMasksOfTheirOwn) {
  Micro micro = numbered(2, 0);
  const std::vector<float> first = left({"place", 0.5, 1}, micro);
  EXPECT_EQ(left({"place", 0.5, 1}, micro), first);
  EXPECT_NE(left({"other", 0.5, 1}, micro), first);
  EXPECT_NE(left({"place", 0.5, 2}, micro), first);
  micro.scalars = tiny_scalars(stream(), 1);
  EXPECT_NE(left({"place", 0.5, 1}, micro), first);
}

TEST_F(DropoutPart, BackwardHasTheMaskOfForwardAndLeavesDyAlone) {
  const Dropout dropout{"place", 0.5, 1};
  const Micro micro = numbered(2, 3);
  const Tensor dy = bench_.make<float>({micro.size(), kHidden}, ones(micro));
  EXPECT_EQ(bench_.read<float>(dropout.backward(stream(), micro, alone_.tensor, dy)),
            left(dropout, micro));
  EXPECT_EQ(bench_.read<float>(dy), ones(micro));
}

TEST_F(DropoutPart, IsOnOnlyWithAChanceAndIndices) {
  const Micro micro = numbered(2, 0), evaluated = tiny_micro(stream(), 2, 6, 19);
  const Dropout half{"place", 0.5, 1}, none{"place", 0, 1};
  EXPECT_TRUE(half.is_on(micro));
  EXPECT_FALSE(half.is_on(evaluated));
  EXPECT_FALSE(none.is_on(micro));
  const Tensor dy = bench_.make<float>({micro.size(), kHidden}, ones(micro));
  EXPECT_EQ(none.backward(stream(), micro, alone_.tensor, dy).data<float>(), dy.data<float>());
  EXPECT_EQ(half.backward(stream(), evaluated, alone_.tensor, dy).data<float>(), dy.data<float>());
}

}  // namespace
}  // namespace sextant

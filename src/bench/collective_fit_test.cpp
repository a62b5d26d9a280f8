#include "bench/collective_fit.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

CollectiveRow row_of(Operation operation, int ranks, int64_t bytes, double seconds) {
  return {operation, ranks, bytes, seconds, 0, 0};
}

TEST(CollectiveFit, FindsTheConstantsThatMadeTheTimes) {
  std::vector<CollectiveRow> rows;
  for (const int64_t bytes : {1024, 65536, 1048576, 16777216}) {
    rows.push_back(row_of(Operation::AllReduce, 4, bytes, 2e-6 + 1e-10 * double(bytes)));
    rows.push_back(row_of(Operation::Gather, 2, bytes, 5e-7 + 3e-11 * double(bytes)));
  }
  const std::vector<CollectiveFit> fits = fit_collectives(rows);
  ASSERT_EQ(fits.size(), 2u);
  EXPECT_EQ(fits[0].operation, Operation::AllReduce);
  EXPECT_NEAR(fits[0].alpha_s, 2e-6, 1e-12);
  EXPECT_NEAR(fits[0].beta_s, 1e-10, 1e-16);
  EXPECT_LT(fits[0].error, 1e-6);
  EXPECT_EQ(fits[1].ranks, 2);
  EXPECT_NEAR(fits[1].alpha_s, 5e-7, 1e-13);
  EXPECT_NEAR(fits[1].beta_s, 3e-11, 1e-17);
}

TEST(CollectiveFit, SmallSizesCountAsMuchAsLargeOnes) {
  // The time of the largest is off by a tenth: absolute errors would turn alpha negative.
  const std::vector<CollectiveRow> rows = {
      row_of(Operation::Reduce, 2, 64, 1e-6), row_of(Operation::Reduce, 2, 4096, 1.4e-6),
      row_of(Operation::Reduce, 2, int64_t{1} << 24, 1.1 * 1.6777216e-3)};
  const CollectiveFit fit = fit_collectives(rows)[0];
  EXPECT_NEAR(fit.alpha_s, 1.1e-6, 2e-7);
  EXPECT_LT(fit.error, 0.3);
}

TEST(CollectiveFit, HasNoConstantBelowZero) {
  const CollectiveFit falling = fit_collectives(
      std::vector{row_of(Operation::Send, 2, 64, 2e-6), row_of(Operation::Send, 2, 1024, 1e-6)})[0];
  EXPECT_EQ(falling.beta_s, 0);
  EXPECT_GT(falling.alpha_s, 1e-6);
  const CollectiveFit steep = fit_collectives(std::vector{
      row_of(Operation::Send, 2, 1024, 1e-9), row_of(Operation::Send, 2, 2048, 1e-6)})[0];
  EXPECT_EQ(steep.alpha_s, 0);
  const CollectiveFit one = fit_collectives(std::vector{row_of(Operation::Barrier, 8, 0, 3e-6)})[0];
  EXPECT_NEAR(one.alpha_s, 3e-6, 1e-15);
  EXPECT_EQ(one.beta_s, 0);
}

}  // namespace
}  // namespace sextant

#include "optim/clip.h"

#include <gtest/gtest.h>

#include <array>

#include "comm/run_ranks.h"
#include "support/workbench.h"

namespace sextant {
namespace {

TEST(GradientNorm, IsOverAllParameters) {
  Workbench bench;
  std::vector<OwnedSlice> slices(2);
  slices[0].grad = bench.make<float>({2}, {3, 0});
  slices[1].grad = bench.make<float>({2}, {4, 12});
  Tensor scratch = bench.make<double>({1}, {99});  // what was there before does not count
  EXPECT_DOUBLE_EQ(gradient_norm(bench.stream(), slices, scratch, {}), 13);
  EXPECT_DOUBLE_EQ(gradient_norm(bench.stream(), slices, scratch, {}), 13);
}

TEST(GradientNorm, CountsEveryElementOnceWhenRanksDivideThem) {
  run_ranks(3, [](Communicator& shards) {
    Workbench bench;
    std::vector<OwnedSlice> slices;
    if (shards.rank() != 1) {  // one rank has nothing
      slices.emplace_back();
      slices.back().grad = bench.make<float>({1}, {shards.rank() == 0 ? 5.0f : 12.0f});
    }
    Tensor scratch = bench.make<double>({1}, {99});
    EXPECT_DOUBLE_EQ(gradient_norm(bench.stream(), slices, scratch, std::array{&shards}), 13);
  });
}

TEST(ClipScale, ShortensOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
  EXPECT_LE(4 * clip_scale(4, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
}

TEST(ClipScale, ALimitOfZeroMeansNone) {
  EXPECT_EQ(clip_scale(1e9, 0), 1);
}

}  // namespace
}  // namespace sextant

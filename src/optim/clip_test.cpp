#include "optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/run_ranks.h"
#include "ops/update.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

TEST(GradientNorm, IsOverAllParameters) {
  Workbench bench;
  std::vector<OwnedSlice> slices(2);
  slices[0].grad = bench.make<float>({2}, {3, 0});
  slices[1].grad = bench.make<float>({2}, {4, 12});
  GradientSquares squares(bench.stream(), slices, {});
  for (int round = 0; round < 2; ++round) {  // earlier values do not count
    squares.sum(bench.stream());
    EXPECT_DOUBLE_EQ(norm_of(squares.read(bench.stream())), 13);
  }
}

TEST(GradientNorm, CountsEveryElementOnceWhenRanksDivideThem) {
  run_ranks(3, [](Communicator& shards) {
    Workbench bench;
    std::vector<OwnedSlice> slices;
    if (shards.rank() != 1) {  // one rank owns nothing
      slices.emplace_back();
      slices.back().grad = bench.make<float>({1}, {shards.rank() == 0 ? 5.0f : 12.0f});
    }
    GradientSquares squares(bench.stream(), slices, {&shards});
    squares.sum(bench.stream());
    EXPECT_DOUBLE_EQ(norm_of(squares.read(bench.stream())), 13);
    EXPECT_EQ(shards.ledger().traffic.total().calls, 0);  // no tensor traffic
    EXPECT_EQ(shards.ledger().control.calls, 1);
  });
}

TEST(ClipScale, ShortensOnlyWhatIsTooLong) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_NEAR(clip_scale(4, 1), 0.25, 1e-6);
  EXPECT_LE(4 * clip_scale(4, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
}

TEST(ClipScale, IsWhatTheDeviceComputes) {
  Workbench bench;
  for (const double squares : {0.0, 0.3, 1.0, 17.0, 1e30, HUGE_VAL, double{NAN}})
    for (const double limit : {0.0, 0.5, 1.0}) {
      Tensor scalars = bench.make<double>({kUpdateScalars}, {1, 2, 3, 4, 5, 1, 0});
      clip(bench.stream(), scalars, bench.make<double>({1}, {squares}), limit);
      const std::vector<double> after = bench.read<double>(scalars);
      const double norm = norm_of(squares);
      EXPECT_EQ(after[4], std::isfinite(norm) ? 1 : 0) << squares;
      if (std::isfinite(norm)) {
        EXPECT_EQ(after[3], clip_scale(norm, limit)) << squares;
      }
      EXPECT_EQ(after[0], 1);
      EXPECT_EQ(after[2], 3);
    }
}

TEST(ClipScale, BadDataIsNotApplied) {
  Workbench bench;
  Stream& stream = bench.stream();
  Tensor clipped = bench.make<double>({kUpdateScalars}, {1, 1, 1, 1, 1, 1, 0});
  Tensor chosen = bench.make<double>({kUpdateScalars}, {1, 1, 1, 1, 1, 1, 0});
  const auto applied = [&] {
    clip(stream, clipped, bench.make<double>({1}, {4}), 1);
    apply_unless_bad_data(stream, chosen);
    return std::pair(bench.read<double>(clipped)[4], bench.read<double>(chosen)[4]);
  };
  EXPECT_EQ(applied(), std::pair(1.0, 1.0));
  stream.report({Fault::Data, "op", "value %", {3}});
  EXPECT_EQ(applied(), std::pair(0.0, 0.0));
  EXPECT_ERROR(stream.check_data(), Data, "op: value 3");
  EXPECT_EQ(applied(), std::pair(1.0, 1.0));
}

TEST(ClipScale, ALimitOfZeroMeansNone) {
  EXPECT_EQ(clip_scale(1e9, 0), 1);
}

}  // namespace
}  // namespace sextant

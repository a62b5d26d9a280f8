#include "bench/grouped_gemm.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

// Advances time per turn, so that nothing is really measured.
class TurnClock final : public Clock {
 public:
  double now() const override { return seconds_ += 0.25; }
  double wall() const override { return 0; }

 private:
  mutable double seconds_ = 0;
};

TEST(BenchGrouped, RowsOfExpertsAreEvenOrHalfOnTheFirst) {
  GroupedShape shape{"small", 3, 4, 2, 5};
  EXPECT_EQ(shape.offsets(), (std::vector<int32_t>{0, 4, 8, 12}));
  shape.half_on_one = true;
  EXPECT_EQ(shape.offsets(), (std::vector<int32_t>{0, 6, 9, 12}));
  for (const GroupedShape& one : grouped_shapes(DeviceKind::Cpu))
    EXPECT_EQ(one.offsets().back(), 2048);
  for (const GroupedShape& one : grouped_shapes(DeviceKind::Cuda))
    EXPECT_EQ(one.offsets().back(), 32768);
}

TEST(BenchGrouped, EveryPassIsMeasuredBesideADenseProductOfEqualWork) {
  GemmOptions options;
  options.threads = {1, 2};
  options.repeats = 2;
  options.pause_seconds = 0;
  const std::vector<GroupedRow> rows =
      bench_grouped(options, {{"small", 3, 4, 2, 5, true}}, DeviceKind::Cpu, TurnClock());
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[2].name, "small, backward weight");
  EXPECT_EQ(rows[5].threads, 2);
  for (const GroupedRow& row : rows) {
    EXPECT_DOUBLE_EQ(row.gflops, 2.0 * 12 * 2 * 5 / 0.25 / 1e9);
    EXPECT_DOUBLE_EQ(row.ratio(), 1);
  }
}

}  // namespace
}  // namespace sextant

#include "bench/optimizer.h"

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

TEST(BenchAdamW, MeasuresBothAndFreesItsArrays) {
  Workbench bench(2);
  const SystemClock clock;
  const int64_t before = bench.arena().current();
  const OptimizerTimes times = bench_adamw(bench.stream(), clock, 100000, 2);
  EXPECT_EQ(times.elements, 100000);
  EXPECT_GT(times.adamw_seconds, 0);
  EXPECT_GT(times.floor_seconds, 0);
  EXPECT_DOUBLE_EQ(times.ratio(), times.floor_bytes_per_second() / times.adamw_bytes_per_second());
  EXPECT_EQ(bench.arena().current(), before);
  EXPECT_EQ(bench.arena().peak(Category::Optimizer), 2 * 4 * 100000);
  EXPECT_ERROR((void)bench_adamw(bench.stream(), clock, 0, 1), Usage, "elements=0");
}

}  // namespace
}  // namespace sextant

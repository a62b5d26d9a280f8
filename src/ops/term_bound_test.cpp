#include "ops/term_bound.h"

#include <gtest/gtest.h>

#include "support/workbench.h"

namespace sextant {
namespace {

TEST(TermBound, IsTheLargestColumnSumTimesTheLargestInput) {
  Workbench bench;
  Tensor bound = bench.make<double>({1}, {1});
  const Tensor dy = bench.make<float>({2, 2}, {1, -2, -3, 1});  // columns sum up to 4 and 3
  const Tensor x = bench.make<float>({2, 1}, {-5, 2});
  term_bound(bench.stream(), bound, dy, x, 1);
  EXPECT_EQ(bench.read<double>(bound)[0], 1 + 4 * 5);
  term_bound(bench.stream(), bound, dy, Tensor(), 0.5);
  EXPECT_EQ(bench.read<double>(bound)[0], 21 + 2);
}

}  // namespace
}  // namespace sextant

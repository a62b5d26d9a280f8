#include "base/budget.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Budget, GivesItsUnitsAndRefusesMore) {
  Budget budget(5, "too much of it: at most 5");
  budget.take(2);
  budget.take(3);
  EXPECT_EQ(budget.left(), 0);
  EXPECT_ERROR(budget.take(1), Config, "too much of it: at most 5");
  EXPECT_ERROR(budget.take(1), Config, "at most 5");  // from then on, too
}

}  // namespace
}  // namespace sextant

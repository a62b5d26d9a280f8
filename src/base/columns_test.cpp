#include "base/columns.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TEST(Columns, AreCountedInCharacters) {
  EXPECT_EQ(width_of(""), 0u);
  EXPECT_EQ(width_of("a … b"), 5u);
}

TEST(Columns, LineUp) {
  const std::vector<TextRow> rows = {{"name", "n", "last"}, {"…", "100", ""}, {"longer", "7", "x"}};
  EXPECT_EQ(aligned(rows, "  ", Align::Right),
            "  name      n  last\n"
            "  …       100\n"
            "  longer    7     x\n");
  EXPECT_EQ(aligned(rows, "", Align::Left),
            "name    n    last\n"
            "…       100\n"
            "longer  7    x\n");
  EXPECT_EQ(aligned({}, "  ", Align::Left), "");
}

TEST(Columns, ManyAreTheFirstOnesAndTheLast) {
  EXPECT_EQ(first_and_last(3, 4), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(first_and_last(4, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(first_and_last(9, 4), (std::vector<int>{0, 1, kLeftOut, 8}));
}

}  // namespace
}  // namespace sextant

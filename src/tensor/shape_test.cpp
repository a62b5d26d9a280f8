#include "tensor/shape.h"

#include <limits>
#include <sstream>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Shape, KnowsItsElementsAndText) {
  EXPECT_EQ((Shape{2, 3, 4}.elements()), 24);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{5, 0}.elements()), 0);
  std::ostringstream text;
  text << Shape{2, 3} << Shape{};
  EXPECT_EQ(text.str(), "[2, 3][]");
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_ERROR((Shape{1, 1, 1, 1, 1, 1}), Usage, "at most 5 dims, got 6");
  EXPECT_ERROR((Shape{2, -1}), Usage, "dim 1 is -1");
}

TEST(Shape, RefusesSizesThatOverflow) {
  const int64_t huge = std::numeric_limits<int64_t>::max() / 8;
  EXPECT_EQ(Shape{huge}.elements(), huge);
  EXPECT_ERROR((Shape{huge + 1}), Usage, "cannot be addressed");
  EXPECT_ERROR((Shape{int64_t{1} << 32, int64_t{1} << 32}), Usage, "cannot be addressed");
  EXPECT_ERROR((Shape{0, int64_t{1} << 40, int64_t{1} << 40}), Usage, "cannot be addressed");
}

}  // namespace
}  // namespace sextant

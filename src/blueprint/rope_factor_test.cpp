#include "blueprint/rope_factor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sextant {
namespace {

RopeScaling yarn(double factor) {
  RopeScaling rope;
  rope.type = RopeType::Yarn;
  rope.factor = factor;
  return rope;
}

TEST(RopeFactor, OfYarnGrowsWithTheLogarithmOfTheFactor) {
  EXPECT_DOUBLE_EQ(rope_attention_factor(yarn(std::exp(2.0))), 1.2);
  EXPECT_EQ(rope_attention_factor(yarn(1)), 1);
  RopeScaling said = yarn(4);
  said.attention_factor = 0.75;
  EXPECT_EQ(rope_attention_factor(said), 0.75);
}

TEST(RopeFactor, OfDeepSeekIsAQuotientAndASquareForQueries) {
  RopeScaling rope = yarn(std::exp(2.0));
  rope.mscale = 2;
  EXPECT_DOUBLE_EQ(rope_attention_factor(rope), 1.2);  // one of the two is not enough
  EXPECT_EQ(rope_query_scale(rope), 1);
  rope.mscale_all_dim = 0.5;
  EXPECT_DOUBLE_EQ(rope_attention_factor(rope), 1.4 / 1.1);
  EXPECT_DOUBLE_EQ(rope_query_scale(rope), 1.1 * 1.1);
}

TEST(RopeFactor, OfOtherScalingIsOne) {
  for (const RopeType type : {RopeType::Llama3, RopeType::Linear}) {
    RopeScaling rope = yarn(8);
    rope.type = type;
    rope.mscale = rope.mscale_all_dim = rope.attention_factor = 2;
    EXPECT_EQ(rope_attention_factor(rope), 1);
    EXPECT_EQ(rope_query_scale(rope), 1);
  }
}

}  // namespace
}  // namespace sextant

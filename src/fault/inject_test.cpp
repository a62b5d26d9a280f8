#include "fault/inject.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(Injection, IsReadFromItsText) {
  const Injection injection = parse_injection("scale_shard:group=1,rank=3,step=2");
  EXPECT_EQ(injection.kind, InjectionKind::ScaleShard);
  EXPECT_EQ(injection.group, 1);
  EXPECT_EQ(injection.rank, 3);
  EXPECT_EQ(injection.step, 2);
  EXPECT_EQ(parse_injection("die").kind, InjectionKind::Die);
  EXPECT_EQ(parse_injection("gpu_error:step=2").kind, InjectionKind::GpuError);
  EXPECT_TRUE(parse_injection("gpu_error").ends_rank());
  EXPECT_EQ(parse_injection("same_mask:step=2").kind, InjectionKind::SameMask);
  EXPECT_EQ(parse_injection("").kind, InjectionKind::None);
}

TEST(Injection, HitsWhereItSaysAndEverywhereElseNot) {
  const Injection one = parse_injection("drop_bucket:group=2");
  EXPECT_TRUE(one.hits(InjectionKind::DropBucket, 2, 0, 1));
  EXPECT_TRUE(one.hits(InjectionKind::DropBucket, 2, 5, 9));
  EXPECT_FALSE(one.hits(InjectionKind::DropBucket, 1, 0, 1));
  EXPECT_FALSE(one.hits(InjectionKind::SkipGather, 2, 0, 1));
  const Injection stall = parse_injection("stall:rank=1,step=3");
  EXPECT_TRUE(stall.hits(InjectionKind::Stall, 0, 1, 3));
  EXPECT_FALSE(stall.hits(InjectionKind::Stall, 0, 1, 2));
  EXPECT_FALSE(stall.hits(InjectionKind::Stall, 0, 0, 3));
  EXPECT_FALSE(Injection{}.hits(InjectionKind::None, 0, 0, 0));
}

TEST(Injection, RefusesWhatItDoesNotKnowAndSaysWhatThereIs) {
  EXPECT_ERROR(parse_injection("explode"), Config, "explode");
  EXPECT_ERROR(parse_injection("explode"), Config, "drop_bucket");
  EXPECT_ERROR(parse_injection("die:rank=two"), Config, "two");
  EXPECT_ERROR(parse_injection("die:place=2"), Config, "place");
  EXPECT_ERROR(parse_injection("die:rank"), Config, "rank");
}

}  // namespace
}  // namespace sextant

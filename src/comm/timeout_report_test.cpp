#include "comm/timeout_report.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace sextant {
namespace {

class Late : public testing::Test {
 protected:
  std::string text(std::vector<int> missing, bool named = false) {
    own_.rank = 4;
    return describe_statuses(own_, missing, 6, named, [&](int rank) -> std::optional<RankStatus> {
      const auto found = others_.find(rank);
      if (found == others_.end()) return {};
      return found->second;
    });
  }

  SystemClock clock_;
  Ledger own_{clock_};
  std::map<int, RankStatus> others_;
};

TEST_F(Late, RanksSayWhatTheyAreAt) {
  others_[2] = {"is at B", -1};
  EXPECT_EQ(text({2, 3}), "; rank 4 waits; rank 2 is at B; rank 3 does not answer");
  own_.activity.set("F", 2);
  EXPECT_EQ(text({2}, true), "; in the world, rank 4 is at F; rank 2 is at B");
}

TEST_F(Late, TheyAreFollowedToTheOneThatAllWaitFor) {
  others_[2] = {"is at B", 1};
  others_[1] = {"is at W", 0};
  EXPECT_EQ(text({2}), "; rank 4 waits; rank 2 is at B; rank 1 is at W; rank 0 does not answer");
}

TEST_F(Late, OfASilentOneIsToldWhoWaitsForIt) {
  others_[5] = {"is at B, which waits for F", 2};
  others_[1] = {"is at W", 3};
  EXPECT_EQ(text({2}), "; rank 4 waits; rank 2 does not answer; rank 5 is at B, which waits for F");
  own_.activity.set("B, which waits for F of rank 2", 2);
  EXPECT_EQ(text({2}), "; rank 4 is at B, which waits for F of rank 2; rank 2 does not answer");
}

TEST_F(Late, WhereACollectiveIsWaitedForTheOthersAreTold) {
  others_[2] = {"is at B", kUnknownRanks};
  others_[1] = {"is at W", -1};
  others_[5] = {"is at F", 2};
  EXPECT_EQ(text({2}), "; rank 4 waits; rank 2 is at B; rank 1 is at W; rank 5 is at F");
  others_[5].waits_for = 3;  // a rank that waits for a silent one is listed once
  EXPECT_EQ(
      text({2, 3}),
      "; rank 4 waits; rank 2 is at B; rank 3 does not answer; rank 5 is at F; rank 1 is at W");
}

TEST_F(Late, ACircleIsToldOnce) {
  others_[2] = {"is at B", 1};
  others_[1] = {"is at W", 2};
  EXPECT_EQ(text({2}), "; rank 4 waits; rank 2 is at B; rank 1 is at W");
  others_[1].waits_for = 4;
  EXPECT_EQ(text({2}), "; rank 4 waits; rank 2 is at B; rank 1 is at W");
}

TEST_F(Late, AStandingHasTheLastCall) {
  EXPECT_EQ(status_of(own_).text, "last: nothing");
  own_.activity.set("F of stage 1, micro 2", 7);
  Event event;
  event.operation = "barrier";
  own_.recorder.post(event);
  const RankStatus standing = status_of(own_);
  EXPECT_EQ(standing.text.find("is at F of stage 1, micro 2, last: barrier #0"), 0u)
      << standing.text;
  EXPECT_EQ(standing.waits_for, 7);
  own_.activity.set("F of stage 1, micro 2");
  EXPECT_EQ(status_of(own_).waits_for, kUnknownRanks);
  event.operation = "send";
  own_.recorder.post(event);
  EXPECT_EQ(status_of(own_).waits_for, -1);
}

}  // namespace
}  // namespace sextant

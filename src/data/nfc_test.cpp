#include "data/nfc.h"

#include <gtest/gtest.h>

namespace sextant {
namespace {

TEST(Nfc, ComposesReordersAndLeavesTheRest) {
  EXPECT_EQ(to_nfc("plain ASCII"), "plain ASCII");
  EXPECT_EQ(to_nfc("caf\u00e9 na\u00efve"), "caf\u00e9 na\u00efve");
  EXPECT_EQ(to_nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(to_nfc("a\u0301\u0323"), "\u1ea1\u0301");  // the dot below is first and composes
  EXPECT_EQ(to_nfc("q\u0301\u0323"), "q\u0323\u0301");
  EXPECT_EQ(to_nfc("\u212b"), "\u00c5");        // a singleton does not recompose
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093c");  // excluded from composition
  EXPECT_EQ(to_nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(to_nfc("\u0301e"), "\u0301e");
  EXPECT_EQ(to_nfc("a\u0315\u0300"), "\u00e0\u0315");
  EXPECT_EQ(to_nfc("a\u0300\u0300"), "\u00e0\u0300");
  EXPECT_EQ(to_nfc("a\u0305\u0300"), "a\u0305\u0300");  // the second mark of a class is blocked
}

TEST(Nfc, ComposesHangulByArithmetic) {
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(to_nfc("\u1112\u1161"), "\ud558");
  EXPECT_EQ(to_nfc("\ud558\u11ab"), "\ud55c");
  EXPECT_EQ(to_nfc("\ud55c\u11ab"), "\ud55c\u11ab");
  EXPECT_EQ(to_nfc("\u1112\u11ab"), "\u1112\u11ab");
}

}  // namespace
}  // namespace sextant

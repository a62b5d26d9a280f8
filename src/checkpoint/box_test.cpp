#include "checkpoint/box.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sextant {
namespace {

std::vector<int32_t> numbers(const Box& box) {
  std::vector<int32_t> out(static_cast<size_t>(elements_of(box.size)));
  std::iota(out.begin(), out.end(), 1);
  return out;
}

std::vector<int32_t> copied(const Box& to_box, const Box& from_box) {
  std::vector<int32_t> to(static_cast<size_t>(elements_of(to_box.size)), 0);
  const std::vector<int32_t> from = numbers(from_box);
  copy_box(std::as_writable_bytes(std::span(to)), to_box, std::as_bytes(std::span(from)), from_box,
           4);
  return to;
}

TEST(Box, CopyMovesTheElementsThatBothHave) {
  // from: 1 2 3      to: the right lower corner of it and beyond
  //       4 5 6
  EXPECT_EQ(copied({{1, 1}, {2, 3}}, {{0, 0}, {2, 3}}), (std::vector<int32_t>{5, 6, 0, 0, 0, 0}));
}

TEST(Box, CopyOfTheSameBoxIsWhole) {
  EXPECT_EQ(copied({{3, 1}, {2, 2}}, {{3, 1}, {2, 2}}), (std::vector<int32_t>{1, 2, 3, 4}));
}

TEST(Box, CopyOfRowsOfThreeDims) {
  const Box whole{{0, 0, 0}, {3, 2, 2}}, row{{1, 0, 0}, {1, 2, 2}};
  EXPECT_EQ(copied(row, whole), (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(copied({{0, 1, 0}, {3, 1, 2}}, whole), (std::vector<int32_t>{3, 4, 7, 8, 11, 12}));
}

TEST(Box, CopyWithoutOverlapOrDims) {
  EXPECT_EQ(copied({{0}, {2}}, {{2}, {2}}), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(copied({}, {}), (std::vector<int32_t>{1}));
}

TEST(Box, OverlapNeedsEveryDim) {
  EXPECT_TRUE(is_overlapping({{0, 0}, {2, 2}}, {{1, 1}, {2, 2}}));
  EXPECT_FALSE(is_overlapping({{0, 0}, {2, 2}}, {{1, 2}, {2, 2}}));
}

}  // namespace
}  // namespace sextant

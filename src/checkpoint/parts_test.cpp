#include "checkpoint/parts.h"

#include <gtest/gtest.h>

#include "checkpoint/box.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// [8, 3] with 5 valid rows: 15 of 24 elements are stored.
Part table(int rank, int64_t begin, int64_t end, int64_t index = 0) {
  return {"table", DType::F32, Shape{8, 3}, 5, {begin, end}, rank, index};
}

std::vector<JoinedTensor> join(const std::vector<Part>& parts) {
  return join_parts(parts);
}

TEST(Parts, ArriveAsTheyWereSent) {
  Workbench bench;
  const Tensor flat = bench.random<float>({24}, "table");
  const std::vector<NamedTensor> tensors{{"table", flat.slice(5, 11), 5, Shape{8, 3}, 5},
                                         {"whole", bench.empty<bf16>({2, 3}), 2},
                                         {"scalar", bench.empty<int64_t>({}), 0},
                                         {"", Tensor(), 7, Shape{7, 1, 2, 3, 4}, 9}};
  const std::vector<Part> parts = unpack_parts(pack_parts(tensors), 3);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].name, "table");
  EXPECT_EQ(parts[0].dtype, DType::F32);
  EXPECT_EQ(parts[0].shape, (Shape{8, 3}));
  EXPECT_EQ(parts[0].valid_rows, 5);
  EXPECT_EQ(parts[0].range, (Range{5, 11}));
  EXPECT_EQ(parts[0].rank, 3);
  EXPECT_EQ(parts[1].shape, (Shape{2, 3}));
  EXPECT_EQ(parts[1].dtype, DType::BF16);
  EXPECT_EQ(parts[1].range, (Range{0, 6}));
  EXPECT_EQ(parts[1].index, 1);
  EXPECT_EQ(parts[2].shape, Shape{});
  EXPECT_EQ(parts[2].range, (Range{0, 1}));
  EXPECT_EQ(parts[3].shape, (Shape{7, 1, 2, 3, 4}));
  EXPECT_EQ(parts[3].range, (Range{9, 9}));
  EXPECT_TRUE(unpack_parts({}, 0).empty());
}

TEST(Parts, AreJoinedInTheOrderOfTheirElementsWithoutPadding) {
  const Part other{"other", DType::I64, Shape{}, 0, {0, 1}, 1, 1};
  const std::vector<JoinedTensor> joined = join(
      {table(0, 10, 20), table(1, 0, 4), other, table(2, 20, 24), table(3, 4, 10), table(4, 7, 7)});
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].name, "table");
  EXPECT_EQ(joined[0].shape, (std::vector<int64_t>{5, 3}));
  ASSERT_EQ(joined[0].parts.size(), 3u);
  EXPECT_EQ(joined[0].parts[0].rank, 1);
  EXPECT_EQ(joined[0].parts[1].rank, 3);
  EXPECT_EQ(joined[0].parts[2].rank, 0);
  EXPECT_EQ(joined[0].parts[2].range, (Range{10, 15}));
  EXPECT_EQ(joined[1].dtype, DType::I64);
}

TEST(Parts, AnEmptyPartHasNoType) {
  Part empty = table(0, 0, 0);
  empty.dtype = DType::BF16;
  EXPECT_EQ(join({empty, table(1, 0, 24)})[0].dtype, DType::F32);
}

TEST(Parts, HolesAreNamed) {
  EXPECT_ERROR(join({table(0, 0, 4), table(1, 6, 24)}), Internal,
               "tensor table: elements 4 ... 5 of 15 are on no rank");
  EXPECT_ERROR(join({table(0, 1, 24)}), Internal, "elements 0 ... 0 of 15");
  EXPECT_ERROR(join({table(0, 0, 14)}), Internal, "elements 14 ... 14 of 15");
  EXPECT_ERROR(join({table(0, 0, 0), table(1, 24, 24)}), Internal, "elements 0 ... 14 of 15");
  EXPECT_EQ(join({table(0, 0, 15)}).size(), 1u);  // padding may be anywhere, or nowhere
}

TEST(Parts, OverlapsAreNamed) {
  EXPECT_ERROR(join({table(2, 0, 8), table(1, 6, 24)}), Internal,
               "tensor table: elements 6 ... 7 are on rank 2 and on rank 1");
  EXPECT_ERROR(join({table(0, 0, 24), table(1, 3, 5)}), Internal,
               "elements 3 ... 4 are on rank 0 and on rank 1");
  EXPECT_ERROR(join({table(1, 0, 8), table(1, 6, 24)}), Usage,
               "table is written twice: rank 1 has elements 6 ... 7 in two parts");
  EXPECT_EQ(join({table(0, 0, 20), table(1, 15, 24)}).size(), 1u);  // only of padding
}

TEST(Parts, RanksMustAgreeAboutTheWhole) {
  Part other = table(1, 9, 24);
  other.shape = Shape{8, 4};
  EXPECT_ERROR(join({table(0, 0, 9), other}), Internal,
               "table is [8, 3] with 5 valid rows on rank 0, [8, 4] with 5 valid rows on rank 1");
  other = table(1, 9, 24);
  other.valid_rows = 6;
  EXPECT_ERROR(join({table(0, 0, 9), other}), Internal, "with 6 valid rows on rank 1");
  other = table(1, 9, 24);
  other.dtype = DType::BF16;
  EXPECT_ERROR(join({table(0, 0, 9), other}), Internal, "f32 on rank 0, bf16 on rank 1");
}

TEST(Parts, MustLieInTheWhole) {
  EXPECT_ERROR(join({table(1, 9, 25)}), Usage,
               "table [8, 3] has 24 elements, rank 1 says that it has elements 9 ... 24");
  EXPECT_ERROR(join({table(0, -1, 9)}), Usage, "elements -1 ... 8");
  Part part = table(0, 0, 24);
  part.valid_rows = 9;
  EXPECT_ERROR(join({part}), Usage, "has valid_rows 9; 1 to 8 is right");
}

// "rank:index:first+count" of whatever is asked for, piece by piece.
std::string pieces(const JoinedTensor& tensor, int64_t most, int ranks) {
  std::string text;
  for (int64_t begin = 0; begin < elements_of(tensor.shape);) {
    const std::vector<Ask> asks = next_piece(tensor, begin, most, ranks);
    if (!text.empty()) text += " | ";
    int64_t count = 0;
    for (size_t rank = 0; rank < asks.size(); ++rank) {
      count += asks[rank].count;
      if (asks[rank].count > 0)
        text += concat(count > asks[rank].count ? " " : "", rank, ":", asks[rank].index, ":",
                       asks[rank].first, "+", asks[rank].count);
    }
    if (count == 0) return text + "nothing";
    begin += count;
  }
  return text;
}

TEST(Pieces, AreOfBoundedSizeAndInRankOrder) {
  const JoinedTensor even = join({table(0, 0, 8, 4), table(1, 8, 16, 5), table(2, 16, 24, 6)})[0];
  EXPECT_EQ(pieces(even, 100, 3), "0:4:0+8 1:5:0+7");
  EXPECT_EQ(pieces(even, 5, 3), "0:4:0+5 | 0:4:5+3 1:5:0+2 | 1:5:2+5");
  // Ranks out of order, and one with two parts.
  const JoinedTensor mixed =
      join({table(2, 0, 3), table(0, 3, 5), table(1, 5, 9), table(1, 9, 24, 1)})[0];
  EXPECT_EQ(pieces(mixed, 100, 4), "2:0:0+3 | 0:0:0+2 1:0:0+4 | 1:1:0+6");
}

}  // namespace
}  // namespace sextant

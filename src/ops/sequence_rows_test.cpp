#include "ops/sequence_rows.h"

#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

std::vector<int32_t> counted(int64_t count) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

// Chunk c of 2 * ranks lies with rank c, or 2 * ranks - 1 - c, as its first or second half.
std::vector<TokenChunk> zigzag(int64_t ranks, int64_t chunk) {
  std::vector<TokenChunk> out;
  for (int64_t c = 0; c < 2 * ranks; ++c)
    out.push_back({(c < ranks ? 2 * c : 2 * (2 * ranks - 1 - c) + 1) * chunk, c * chunk, chunk});
  return out;
}

TEST(SequenceRows, JoinsThePartsOfEveryRowOfTheBatch) {
  Workbench bench;
  // Two ranks, two rows of two tokens each.
  const Tensor parts = bench.make<int32_t>({2, 4}, counted(8));
  Tensor whole = bench.empty<int32_t>({8}), back = bench.empty<int32_t>({2, 4});
  join_sequence(bench.stream(), whole, parts, 2);
  EXPECT_EQ(bench.read<int32_t>(whole), (std::vector<int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
  split_sequence(bench.stream(), back, whole, 2);
  EXPECT_EQ(bench.read<int32_t>(back), counted(8));
}

TEST(SequenceRows, ZigzagPartsAreGatheredInNaturalOrder) {
  Workbench bench;
  const std::vector<TokenChunk> chunks = zigzag(2, 2);
  const Tensor whole = bench.make<int32_t>({16}, counted(16));  // two rows of 8
  Tensor parts = bench.empty<int32_t>({2, 8}), back = bench.empty<int32_t>({16});
  scatter_chunks(bench.stream(), parts, whole, 2, TokenChunks(chunks));
  EXPECT_EQ(bench.read<int32_t>(parts), (std::vector<int32_t>{0, 1, 6, 7, 8, 9, 14, 15,  //
                                                              2, 3, 4, 5, 10, 11, 12, 13}));
  gather_chunks(bench.stream(), back, parts, 2, TokenChunks(chunks));
  EXPECT_EQ(bench.read<int32_t>(back), counted(16));
}

TEST(SequenceRows, TakesAPartOfARowAndLeavesTheOthers) {
  Workbench bench;
  const Tensor x = bench.make<float>({6, 2}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  Tensor y = bench.make<float>({4, 2}, std::vector<float>(8, 9));
  const TokenChunk last{2, 0, 1};  // of rows of 3 and 2 tokens
  gather_chunks(bench.stream(), y, x, 2, TokenChunks({&last, 1}));
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{2, 2, 9, 9, 5, 5, 9, 9}));
}

TEST(SequenceRows, AChunkMayCrossParts) {
  Workbench bench;
  const Tensor parts = bench.make<int32_t>({3, 2}, counted(6));
  Tensor whole = bench.empty<int32_t>({4});
  const TokenChunk middle{1, 0, 4};
  gather_chunks(bench.stream(), whole, parts, 1, TokenChunks({&middle, 1}));
  EXPECT_EQ(bench.read<int32_t>(whole), (std::vector<int32_t>{1, 2, 3, 4}));
}

TEST(SequenceRows, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const int64_t batch = 3, ranks = 4, chunk = 65, width = 70;
    const Tensor whole = bench.random<double>({batch * 2 * ranks * chunk, width}, "x");
    Tensor parts = bench.empty<double>({ranks, batch * 2 * chunk, width});
    Tensor back = bench.empty<double>(whole.shape());
    scatter_chunks(bench.stream(), parts, whole, batch, TokenChunks(zigzag(ranks, chunk)));
    gather_chunks(bench.stream(), back, parts, batch, TokenChunks(zigzag(ranks, chunk)));
    EXPECT_TRUE(bench.bytes(back) == bench.bytes(whole));
    return bytes_of(bench, parts);
  });
}

TEST(SequenceRows, RefusesWhatDoesNotFit) {
  Workbench bench;
  Tensor whole = bench.empty<float>({8, 3}), parts = bench.empty<float>({2, 4, 3});
  Tensor narrow = bench.empty<float>({2, 4, 2}), ids = bench.empty<int32_t>({2, 4, 3});
  Tensor short_parts = bench.empty<float>({2, 2, 3});
  Stream& s = bench.stream();
  EXPECT_ERROR(join_sequence(s, whole, narrow, 2), Usage,
               "join_sequence: whole is [8, 3] and parts");
  EXPECT_ERROR(join_sequence(s, whole, ids, 2), Usage, "must be of one type");
  EXPECT_ERROR(join_sequence(s, whole, parts, 3), Usage, "batch=3");
  EXPECT_ERROR(split_sequence(s, short_parts, whole, 2), Usage,
               "2 parts of 1 tokens, must be the 4 of the whole");
  const TokenChunk far{3, 0, 2}, first{0, 0, 2}, second{2, 1, 2};
  EXPECT_ERROR(gather_chunks(s, whole, parts, 2, TokenChunks({&far, 1})), Usage,
               "gather_chunks: chunk of 2 tokens at 3 of the parts and 0 of the whole");
  const TokenChunk both[] = {first, second};
  EXPECT_ERROR(scatter_chunks(s, parts, whole, 2, TokenChunks(both)), Usage, "must not overlap");
  std::vector<TokenChunk> many(100);  // a list that is sorted
  for (int64_t i = 0; i < 100; ++i) many[static_cast<size_t>(i)] = {i, 99 - i, 1};
  Tensor long_whole = bench.empty<float>({100, 3}), long_parts = bench.empty<float>({100, 3});
  gather_chunks(s, long_whole, long_parts, 1, TokenChunks(many));
  many[7].in_whole = 50;
  EXPECT_ERROR(gather_chunks(s, long_whole, long_parts, 1, TokenChunks(many)), Usage,
               "must not overlap");
  const TokenChunk negative{-1, 0, 2};
  EXPECT_ERROR(TokenChunks({&negative, 1}), Usage, "chunk of 2 tokens at -1");
}

}  // namespace
}  // namespace sextant

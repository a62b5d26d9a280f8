#include "ops/split_heads.h"

#include "ops/attention.h"
#include "ops/sequence_rows.h"
#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(SplitHeads, GivesEveryRankItsColumns) {
  Workbench bench;
  const std::vector<float> values = {0, 1, 2, 3, 10, 11, 12, 13};
  const Tensor x = bench.make<float>({2, 4}, values);
  Tensor parts = bench.empty<float>({2, 2, 2}), back = bench.empty<float>({2, 4});
  split_heads(bench.stream(), parts, x);
  EXPECT_EQ(bench.read<float>(parts), (std::vector<float>{0, 1, 10, 11, 2, 3, 12, 13}));
  join_heads(bench.stream(), back, parts);
  EXPECT_EQ(bench.read<float>(back), values);
}

TEST(SplitHeads, RepeatsKeysAndValuesForTheirShareOfTheQueries) {
  Workbench bench;
  // Two key-value heads with two query heads each, width 2: a token is q q k v q q k v.
  const Heads heads{1, 1, 4, 2, 2};
  const Tensor qkv =
      bench.make<float>({1, 16}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  Tensor out = bench.empty<float>({1, 24});
  repeat_kv(bench.stream(), out, qkv, heads, 2);
  EXPECT_EQ(bench.read<float>(out), (std::vector<float>{0,  1,  4,  5,  6,  7,  2,  3,   //
                                                        4,  5,  6,  7,  8,  9,  12, 13,  //
                                                        14, 15, 10, 11, 12, 13, 14, 15}));
  Tensor dqkv = bench.empty<float>({1, 16});
  repeat_kv_backward(bench.stream(), dqkv, out, heads, 2);
  EXPECT_EQ(bench.read<float>(dqkv), (std::vector<float>{0, 1, 2, 3, 8, 10, 12, 14,  //
                                                         8, 9, 10, 11, 24, 26, 28, 30}));
}

// 2^24 + 1 - 2^24 is 0 in f32 in this order alone.
TEST(SplitHeads, SumsTheCopiesInOrder) {
  Workbench bench;
  const Heads heads{1, 1, 3, 1, 2};
  Tensor dqkv = bench.empty<float>({1, 10});
  const float big = 0x1p24F;
  const Tensor dout =
      bench.make<float>({1, 18}, {0, 0, big, big, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, -big, -big, 1, 1});
  repeat_kv_backward(bench.stream(), dqkv, dout, heads, 3);
  EXPECT_EQ(bench.read<float>(dqkv), (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 3, 3}));
}

TEST(SplitHeads, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Heads heads{2, 501, 8, 2, 10};
    const Tensor qkv = bench.random<double>({heads.tokens(), heads.qkv_width()}, "qkv");
    Tensor out = bench.empty<double>({heads.tokens(), (8 + 2 * 8) * 10});
    repeat_kv(bench.stream(), out, qkv, heads, 4);
    Tensor parts = bench.empty<double>({8, heads.tokens(), 30}),
           back = bench.empty<double>(out.shape());
    split_heads(bench.stream(), parts, out);
    join_heads(bench.stream(), back, parts);
    EXPECT_TRUE(bench.bytes(back) == bench.bytes(out));
    Tensor dqkv = bench.empty<double>(qkv.shape());
    repeat_kv_backward(bench.stream(), dqkv, back, heads, 4);
    return bytes_of(bench, out, parts, dqkv);
  });
}

// What Ulysses does: heads are exchanged for tokens and back, all ranks in one place.
TEST(SplitHeads, AttentionByHeadsOverExchangedPartsIsThatOfTheWhole) {
  Workbench bench;
  const int64_t ranks = 4, batch = 2, seq = 12, copies = 2;
  const Heads heads{batch, ranks * seq, 8, 2, 6}, repeated{batch, ranks * seq, 8, 4, 6};
  const Heads own{batch, ranks * seq, 2, 1, 6};  // of one rank after the exchange
  const Tensor qkv = bench.random<float>({heads.tokens(), heads.qkv_width()}, "qkv");
  const Tensor starts =
      bench.make<int32_t>({batch, ranks * seq}, std::vector<int32_t>(heads.tokens(), 0));
  Tensor out = bench.empty<float>({heads.tokens(), heads.out_width()});
  Tensor lse = bench.empty<float>({batch, 8, ranks * seq});
  attention(bench.stream(), out, lse, qkv, starts, heads);

  // sent[rank][to], received[rank][from]: [batch * seq, columns of one rank]
  const int64_t width = repeated.qkv_width() / ranks, out_width = own.out_width();
  Tensor shards = bench.empty<float>({ranks, batch * seq, heads.qkv_width()});
  split_sequence(bench.stream(), shards, qkv, batch);
  std::vector<Tensor> sent, outs;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Tensor shard = shards.slice(rank, rank + 1).view({batch * seq, heads.qkv_width()});
    Tensor wide = bench.empty<float>({batch * seq, repeated.qkv_width()});
    sent.push_back(bench.empty<float>({ranks, batch * seq, width}));
    Heads local = heads;
    local.seq = seq;
    repeat_kv(bench.stream(), wide, shard, local, copies);
    split_heads(bench.stream(), sent.back(), wide);
  }
  const auto exchange = [&](const std::vector<Tensor>& from, int64_t rank, int64_t columns) {
    Tensor received = bench.empty<float>({ranks, batch * seq, columns});
    for (int64_t i = 0; i < ranks; ++i) {
      Tensor to = received.slice(i, i + 1);
      copy(bench.stream(), to, from[static_cast<size_t>(i)].slice(rank, rank + 1));
    }
    return received;
  };
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Tensor all = bench.empty<float>({own.tokens(), width});
    join_sequence(bench.stream(), all, exchange(sent, rank, width), batch);
    Tensor y = bench.empty<float>({own.tokens(), out_width});
    Tensor own_lse = bench.empty<float>({batch, 2, ranks * seq});
    attention(bench.stream(), y, own_lse, all, starts, own);
    outs.push_back(bench.empty<float>({ranks, batch * seq, out_width}));
    split_sequence(bench.stream(), outs.back(), y, batch);
  }
  Tensor back = bench.empty<float>({ranks, batch * seq, heads.out_width()});
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Tensor shard = back.slice(rank, rank + 1).view({batch * seq, heads.out_width()});
    join_heads(bench.stream(), shard, exchange(outs, rank, out_width));
  }
  Tensor whole = bench.empty<float>(out.shape());
  join_sequence(bench.stream(), whole, back, batch);
  EXPECT_EQ(bench.bytes(whole), bench.bytes(out));
}

TEST(SplitHeads, RefusesWhatDoesNotDivide) {
  Workbench bench;
  Tensor x = bench.empty<float>({2, 6}), parts = bench.empty<float>({4, 2, 1});
  EXPECT_ERROR(split_heads(bench.stream(), parts, x), Usage,
               "split_heads: 6 columns for 4 ranks, must divide evenly");
  Tensor wrong = bench.empty<float>({2, 3, 3});
  EXPECT_ERROR(join_heads(bench.stream(), x, wrong), Usage,
               "parts is f32 [2, 3, 3], must be f32 [2, 2, 3]");
  const Heads heads{1, 2, 4, 2, 2};
  Tensor qkv = bench.empty<float>({2, 16}), out = bench.empty<float>({2, 24});
  EXPECT_ERROR(repeat_kv(bench.stream(), out, qkv, heads, 3), Usage,
               "repeat_kv: 3 copies, must divide the 2 query heads");
  EXPECT_ERROR(repeat_kv(bench.stream(), out, qkv, heads, 1), Usage,
               "out is f32 [2, 24], must be f32 [2, 16]");
  EXPECT_ERROR(repeat_kv_backward(bench.stream(), out, qkv, heads, 2), Usage, "qkv is f32 [2, 24]");
}

}  // namespace
}  // namespace sextant

#include "ops/embedding.h"

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

// Ids with many repeats and some that are absent.
std::vector<int32_t> some_ids(int64_t rows, int64_t vocab) {
  const Random random(3, "ids");
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row)
    ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab), row)));
  return ids;
}

TEST(Embedding, TakesTheRowsOfTheIds) {
  Workbench bench;
  const Tensor table = bench.make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor ids = bench.make<int32_t>({4}, {2, 0, 2, 1});
  Tensor y = bench.empty<float>({4, 2});
  embedding(bench.stream(), y, table, ids, Write::Replace);
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
  embedding(bench.stream(), y, table, bench.make<int32_t>({4}, {0, 0, 0, 1}), Write::Add);
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{6, 8, 2, 4, 6, 8, 6, 8}));
}

TEST(Embedding, BackwardSumsTheRowsOfAnId) {
  Workbench bench;
  const Tensor dy = bench.make<float>({4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000});
  const Tensor ids = bench.make<int32_t>({4}, {2, 0, 2, 2});
  Tensor dtable = bench.make<float>({3, 2}, {7, 7, 7, 7, 7, 7});
  embedding_backward(bench.stream(), dtable, dy, ids, Write::Add);
  EXPECT_EQ(bench.read<float>(dtable), (std::vector<float>{17, 27, 7, 7, 1108, 2209}));
  embedding_backward(bench.stream(), dtable, dy, ids, Write::Replace);
  EXPECT_EQ(bench.read<float>(dtable), (std::vector<float>{10, 20, 0, 0, 1101, 2202}));
}

// 2^24 + 1 + 1 - 2^24 is 0 or 2 in f32 as the order goes.
TEST(Embedding, BackwardAddsInRowOrderAndThenToTheTable) {
  Workbench bench;
  const Tensor dy = bench.make<float>({3, 1}, {0x1p24F, 1, -0x1p24F});
  const Tensor ids = bench.make<int32_t>({3}, {0, 0, 0});
  Tensor dtable = bench.make<float>({1, 1}, {1});
  embedding_backward(bench.stream(), dtable, dy, ids, Write::Add);
  EXPECT_EQ(bench.read<float>(dtable), std::vector<float>{1});  // (2^24 + 1) - 2^24 = 0, then + 1
}

TEST(Embedding, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  Tensor table = bench.random<double>({5, 3}, "table");
  const Tensor ids = bench.make<int32_t>({6}, {4, 1, 4, 0, 4, 1});
  const Tensor dy = bench.random<double>({6, 3}, "dy");
  Tensor y = bench.empty<double>({6, 3}), dtable = bench.empty<double>({5, 3});
  embedding_backward(bench.stream(), dtable, dy, ids, Write::Replace);
  expect_gradient(bench.stream(), table, dtable, "table", [&] {
    embedding(bench.stream(), y, table, ids, Write::Replace);
    return dot(bench.stream(), y, dy);
  });
}

TEST(Embedding, ManyRowsAgreeWithAPlainLoop) {
  Workbench bench(2);
  const std::vector<int32_t> values = some_ids(2000, 50);
  const Tensor ids = bench.make<int32_t>({2000}, values);
  const Tensor dy = bench.random<double>({2000, 37}, "dy");
  Tensor f32 = bench.empty<float>({60, 37}), f64 = bench.empty<double>({60, 37});
  embedding_backward(bench.stream(), f32, bench.random<float>({2000, 37}, "dy"), ids,
                     Write::Replace);
  embedding_backward(bench.stream(), f64, dy, ids, Write::Replace);
  std::vector<double> wanted(60 * 37);
  const std::vector<double> rows = bench.read<double>(dy);
  for (size_t i = 0; i < rows.size(); ++i)
    wanted[static_cast<size_t>(values[i / 37]) * 37 + i % 37] += rows[i];
  expect_close(bench.read<double>(f64), wanted, 0);
  expect_close(bench.read<float>(f32), wanted, 1e-6);
}

TEST(Embedding, APartOfTheTableTakesItsOwnIdsAlone) {
  Workbench bench;
  const Tensor part = bench.make<float>({2, 2}, {5, 6, 7, 8});  // ids 2 and 3 of 5
  const Tensor ids = bench.make<int32_t>({4}, {3, 0, 4, 2});
  Tensor y = bench.make<float>({4, 2}, std::vector<float>(8, NAN));
  embedding(bench.stream(), y, part, ids, Write::Replace, {2, 5});
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{7, 8, 0, 0, 0, 0, 5, 6}));
  embedding(bench.stream(), y, part, bench.make<int32_t>({4}, {1, 1, 2, 3}), Write::Add, {2, 5});
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{7, 8, 0, 0, 5, 6, 12, 14}));
  const Tensor dy = bench.make<float>({4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000});
  Tensor dpart = bench.make<float>({2, 2}, {9, 9, 9, 9});
  embedding_backward(bench.stream(), dpart, dy, ids, Write::Replace, {2, 5});
  EXPECT_EQ(bench.read<float>(dpart), (std::vector<float>{1000, 2000, 1, 2}));
}

TEST(Embedding, PartsOfTheTableAddUpToTheWholeBitForBit) {
  Workbench bench(2);
  const int64_t rows = 700, hidden = 19, vocab = 90, padded = 96;
  const Tensor ids = bench.make<int32_t>({rows}, some_ids(rows, vocab));
  const Tensor dy = bench.random<float>({rows, hidden}, "dy");
  const Tensor table = bench.random<float>({padded, hidden}, "table");
  Tensor y = bench.empty<float>({rows, hidden}), dtable = bench.empty<float>({padded, hidden});
  embedding(bench.stream(), y, table, ids, Write::Replace);
  embedding_backward(bench.stream(), dtable, dy, ids, Write::Replace);
  for (const int64_t parts : {2, 4, 32}) {  // of 32 parts the last two hold padding alone
    const int64_t size = padded / parts;
    Tensor sum = bench.empty<float>({rows, hidden}), dparts = bench.empty<float>({padded, hidden});
    for (int64_t first = 0; first < padded; first += size) {
      embedding(bench.stream(), sum, table.slice(first, first + size), ids,
                first == 0 ? Write::Replace : Write::Add, {first, vocab});
      Tensor dpart = dparts.slice(first, first + size);
      embedding_backward(bench.stream(), dpart, dy, ids, Write::Replace, {first, vocab});
    }
    EXPECT_EQ(bench.bytes(sum), bench.bytes(y)) << parts;
    EXPECT_EQ(bench.bytes(dparts), bench.bytes(dtable)) << parts;
  }
}

TEST(Embedding, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const Tensor ids = bench.make<int32_t>({3000}, some_ids(3000, 90));
    const Tensor dy = bench.random<float>({3000, 67}, "dy");
    Tensor y = bench.random<float>({3000, 67}, "y"), dtable = bench.random<float>({100, 67}, "d");
    embedding(bench.stream(), y, dtable, ids, Write::Add);
    embedding_backward(bench.stream(), dtable, dy, ids, Write::Add);
    return bytes_of(bench, y, dtable);
  });
}

TEST(Embedding, ReportsIdsOutsideTheTableAndTakesThemAsZeros) {
  Workbench bench(1, DeviceKind::Guarded);
  Stream& stream = bench.stream();
  const Tensor table = bench.make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor high = bench.make<int32_t>({3}, {0, 3, 1 << 30});
  const Tensor low = bench.make<int32_t>({3}, {-1, 0, -(1 << 30)});
  Tensor y = bench.make<float>({3, 2}, std::vector<float>(6, NAN));
  embedding(stream, y, table, high, Write::Replace);
  EXPECT_ERROR(stream.check_data(), Data,
               "embedding: token id 3 at position 1 is outside the vocabulary of 3");
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{1, 2, 0, 0, 0, 0}));
  embedding(stream, y, table, high, Write::Add);
  EXPECT_ERROR(stream.check_data(), Data, "token id 3 at position 1");
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{2, 4, 0, 0, 0, 0}));
  Tensor dtable = bench.make<float>({3, 2}, std::vector<float>(6, NAN));
  embedding_backward(stream, dtable, y, low, Write::Replace);
  EXPECT_ERROR(stream.check_data(), Data,
               "embedding_backward: token id -1 at position 0 is outside the vocabulary of 3");
  EXPECT_EQ(bench.read<float>(dtable), std::vector<float>(6, 0));
}

TEST(Embedding, PaddingOfATableIsNoRowOfAnId) {
  Workbench bench;
  const Tensor part = bench.make<float>({3, 1}, {5, 6, 7});  // ids 1 and 2 of 3, then padding
  const Tensor ids = bench.make<int32_t>({3}, {2, 3, 1});
  Tensor y = bench.empty<float>({3, 1}), dpart = bench.empty<float>({3, 1});
  embedding(bench.stream(), y, part, ids, Write::Replace, {1, 3});
  embedding_backward(bench.stream(), dpart, y, ids, Write::Replace, {1, 3});
  EXPECT_ERROR(bench.stream().check_data(), Data,
               "embedding: token id 3 at position 1 is outside the vocabulary of 3");
  EXPECT_EQ(bench.read<float>(y), (std::vector<float>{6, 0, 5}));
  EXPECT_EQ(bench.read<float>(dpart), (std::vector<float>{5, 6, 0}));
}

TEST(Embedding, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Tensor table = bench.random<float>({3, 2}, "table"), y = bench.empty<float>({2, 2});
  const Tensor ids = bench.make<int32_t>({2}, {0, 1});
  Tensor wide = bench.empty<float>({2, 3});
  EXPECT_ERROR(embedding(bench.stream(), wide, table, ids, Write::Replace), Usage,
               "y is f32 [2, 3], must be f32 [2, 2]");
  EXPECT_ERROR(embedding(bench.stream(), y, table, bench.empty<int64_t>({2}), Write::Replace),
               Usage, "ids is i64 [2], must be i32 [2]");
  EXPECT_ERROR(embedding_backward(bench.stream(), table, y, ids, Write::Chain), Usage, "Chain");
  EXPECT_ERROR(embedding(bench.stream(), y, table, ids, Write::Replace, {-1, 4}), Usage,
               "the table begins at id -1 of 4");
}

}  // namespace
}  // namespace sextant

#include "parallel/tensor_ring.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kRows = 2, kColumns = 3;

// The rows of a rank, all of one value.
std::vector<float> rows_of(float value) {
  return std::vector<float>(kRows * kColumns, value);
}

TEST(TensorRing, GivesTheRowsOfAllRanksEachWhenItIsThere) {
  for (const int size : {2, 3, 5})
    run_ranks(size, [&](Communicator& world) {
      Workbench bench;
      const int rank = world.rank();
      const Tensor own = bench.make<float>({kRows, kColumns}, rows_of(static_cast<float>(rank)));
      Tensor all = bench.empty<float>({size * kRows, kColumns});
      std::vector<int64_t> order;
      gather_ring(bench.stream(), world, all, own, [&](const Range& rows) {
        const int64_t of = rows.begin / kRows;
        order.push_back(of);
        EXPECT_EQ(rows.size(), kRows);
        EXPECT_EQ(bench.read<float>(all.slice(rows.begin, rows.end)),
                  rows_of(static_cast<float>(of)));
      });
      for (int step = 0; step < size; ++step)
        EXPECT_EQ(order[static_cast<size_t>(step)], (rank - step + size) % size);
      EXPECT_EQ(world.ledger().traffic.total().elements, (size - 1) * kRows * kColumns);
    });
}

TEST(TensorRing, AddsTheTermsOfRowsFromTheNextRankOnToTheirOwn) {
  // 1 is lost when added to a large value, and kept once the two large values have cancelled.
  const std::vector<float> terms = {1e8F, 1, -1e8F, 2};
  constexpr int kSize = 4;
  run_ranks(kSize, [&](Communicator& world) {
    Workbench bench;
    const int rank = world.rank();
    const int64_t before = bench.arena().peak();
    const Tensor sum = reduce_ring(
        bench.stream(), world, DType::F32, {kRows, kColumns}, [&](Tensor& term, const Range& rows) {
          EXPECT_EQ(rows.size(), kRows);
          const auto of = static_cast<float>(rows.begin / kRows);
          copy_from_host<float>(bench.stream(), term,
                                rows_of(terms[static_cast<size_t>(rank)] * (of + 1)));
        });
    float wanted = 0;
    for (int step = 1; step <= kSize; ++step)
      wanted += terms[static_cast<size_t>((rank + step) % kSize)] * static_cast<float>(rank + 1);
    EXPECT_EQ(bench.read<float>(sum), rows_of(wanted));
    EXPECT_EQ(world.ledger().traffic.total().elements, (kSize - 1) * kRows * kColumns);
    EXPECT_LE(bench.arena().peak() - before, 3 * sum.bytes());
  });
}

}  // namespace
}  // namespace sextant

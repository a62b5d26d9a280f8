#include "comm/algorithms.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kCounts[] = {1, 3, 8, 13, 840};

// Small whole numbers: their sum is exact in every order.
float sent_value(int rank, int64_t element) {
  return static_cast<float>((rank + 1) * (element % 17) - 3 * rank);
}

struct Sent {
  std::vector<Traffic> of;  // by rank
  int64_t busiest() const {
    int64_t most = 0;
    for (const Traffic& one : of) most = std::max(most, one.elements);
    return most;
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const Traffic& one : of) sum += one.elements;
    return sum;
  }
};

// Runs the algorithm, checks the result, and returns what every rank sent.
Sent run(Algorithm algorithm, int ranks, int64_t count) {
  Sent sent{std::vector<Traffic>(static_cast<size_t>(ranks))};
  run_ranks(ranks, [&](Communicator& world) {
    Workbench bench(1);
    std::vector<float> values, sum;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(sent_value(world.rank(), i));
      sum.push_back(0);
      for (int rank = 0; rank < ranks; ++rank) sum.back() += sent_value(rank, i);
    }
    Tensor data = bench.make<float>({count}, values);
    world.ledger().reset();
    all_reduce_by(bench.stream(), world, data, algorithm);
    sent.of[static_cast<size_t>(world.rank())] = world.ledger().traffic.total();
    EXPECT_EQ(bench.read<float>(data), sum) << name_of(algorithm) << " over " << ranks;
  });
  return sent;
}

int ceil_log2(int n) {
  int log = 0;
  while ((1 << log) < n) ++log;
  return log;
}

TEST(Algorithms, AllGiveTheSumForEveryNumberOfRanksAndElements) {
  for (const Algorithm algorithm : all_algorithms())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int64_t count : kCounts) {
        const Sent sent = run(algorithm, ranks, count);
        for (const Traffic& one : sent.of) EXPECT_EQ(one.bytes, 4 * one.elements);
        EXPECT_EQ(sent.total() == 0, ranks == 1);
      }
}

TEST(Algorithms, NaiveLetsTheRootSendEverythingToEveryone) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Sent sent = run(Algorithm::Naive, ranks, 13);
    EXPECT_EQ(sent.of[0].elements, (ranks - 1) * 13);
    for (size_t rank = 1; rank < sent.of.size(); ++rank) EXPECT_EQ(sent.of[rank].elements, 13);
  }
}

TEST(Algorithms, RingLetsEveryRankSendTwiceAllPartsButOne) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Sent even = run(Algorithm::Ring, ranks, 840);
    for (const Traffic& one : even.of) EXPECT_EQ(one.elements * ranks, 2 * (ranks - 1) * 840);
    // 13 elements: all but the own part in the first round, all but the next one in the second.
    const Sent odd = run(Algorithm::Ring, ranks, 13);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(odd.of[static_cast<size_t>(rank)].elements,
                2 * 13 - even_part(13, ranks, rank).size() -
                    even_part(13, ranks, (rank + 1) % ranks).size());
    EXPECT_EQ(odd.total(), 2 * (ranks - 1) * 13);
  }
}

TEST(Algorithms, TreeLetsTheRootSendOncePerLevel) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Sent sent = run(Algorithm::Tree, ranks, 13);
    EXPECT_EQ(sent.of[0].elements, ceil_log2(ranks) * 13);
    EXPECT_EQ(sent.busiest(), ceil_log2(ranks) * 13);
    EXPECT_EQ(sent.total(), 2 * (ranks - 1) * 13);
  }
}

TEST(Algorithms, DoublingSendsOncePerBitAndOnceMoreToFoldIn) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Sent sent = run(Algorithm::Doubling, ranks, 13);
    int bits = 0;
    while ((2 << bits) <= ranks) ++bits;
    const int most = 1 << bits, beyond = ranks - most;
    EXPECT_EQ(sent.busiest(), (bits + (beyond > 0 ? 1 : 0)) * 13);
    EXPECT_EQ(sent.total(), (most * bits + 2 * beyond) * 13);
  }
}

TEST(Algorithms, StepsFollowTheFormulas) {
  EXPECT_EQ(steps_of(Algorithm::Naive, 8), 14);
  EXPECT_EQ(steps_of(Algorithm::Ring, 8), 14);
  EXPECT_EQ(steps_of(Algorithm::Tree, 8), 6);
  EXPECT_EQ(steps_of(Algorithm::Tree, 5), 6);
  EXPECT_EQ(steps_of(Algorithm::Doubling, 8), 3);
  EXPECT_EQ(steps_of(Algorithm::Doubling, 6), 4);
  for (const Algorithm algorithm : all_algorithms()) EXPECT_EQ(steps_of(algorithm, 1), 0);
}

// Values whose sum depends on the order.
TEST(Algorithms, GiveAllRanksTheSameBitsAndNaiveThoseOfTheTransport) {
  for (const Algorithm algorithm : all_algorithms()) {
    constexpr int kRanks = 5;
    std::vector<std::vector<float>> by_messages(kRanks), by_transport(kRanks);
    run_ranks(kRanks, [&](Communicator& world) {
      Workbench bench(1);
      const std::string name = "rank" + std::to_string(world.rank());
      Tensor one = bench.random<float>({101}, name), other = bench.random<float>({101}, name);
      all_reduce_by(bench.stream(), world, one, algorithm);
      world.all_reduce(bench.stream(), other, ReduceOp::Sum);
      by_messages[static_cast<size_t>(world.rank())] = bench.read<float>(one);
      by_transport[static_cast<size_t>(world.rank())] = bench.read<float>(other);
    });
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(by_messages[rank], by_messages[0]) << name_of(algorithm);
      if (algorithm == Algorithm::Naive) {
        EXPECT_EQ(by_messages[rank], by_transport[rank]);
      }
    }
  }
}

TEST(Algorithms, AreFoundByNameAndRefuseOtherTypes) {
  for (const Algorithm algorithm : all_algorithms())
    EXPECT_EQ(find_algorithm(name_of(algorithm)), algorithm);
  EXPECT_EQ(find_algorithm("rng"), std::nullopt);
  run_ranks(1, [](Communicator& world) {
    Workbench bench(1);
    Tensor data = bench.empty<int64_t>({4});
    EXPECT_ERROR(all_reduce_by(bench.stream(), world, data, Algorithm::Ring), Usage, "is i64");
  });
}

}  // namespace
}  // namespace sextant

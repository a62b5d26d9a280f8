#include "bench/cpu/collective_floor.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace sextant {
namespace {

// Buffers of several ranks; vector `rank` starts with bytes that encode rank and place.
class Stage {
 public:
  Stage(int ranks, int64_t bytes) : bytes_(bytes) {
    buffers.bytes = bytes;
    for (int rank = 0; rank < ranks; ++rank) {
      in_.push_back(make(rank, 1));
      out_.push_back(make(rank, 129));
      buffers.in.push_back(in_.back().get());
      buffers.out.push_back(out_.back().get());
    }
  }
  static std::byte value(int rank, int64_t at, int shift) {
    return static_cast<std::byte>((rank * 37 + at * 5 + shift) % 251);
  }
  std::byte out(int rank, int64_t at) const { return buffers.out[static_cast<size_t>(rank)][at]; }
  void run(Operation operation, int variant) {
    for (int rank = 0; rank < buffers.ranks(); ++rank)
      collective_floor(operation, variant, rank, buffers);
  }

  RankBuffers buffers;

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  Memory make(int rank, int shift) const {
    Memory memory(static_cast<std::byte*>(
        ::operator new (static_cast<size_t>(bytes_), std::align_val_t{64})));
    for (int64_t i = 0; i < bytes_; ++i) memory.get()[i] = value(rank, i, shift);
    return memory;
  }

  int64_t bytes_;
  std::vector<Memory> in_, out_;
};

constexpr std::array<int, 3> kRanks = {2, 3, 5};
constexpr int64_t kPart = 16384 + 3 * 64 + 12;  // blocks, vectors, remainder; parts are unaligned

TEST(CollectiveFloor, CopiesAreTheCollectivesThemselves) {
  for (const int ranks : kRanks)
    for (int variant = 0; variant < kFloorVariants; ++variant) {
      Stage gather(ranks, ranks * kPart), exchange(ranks, ranks * kPart);
      Stage broadcast(ranks, ranks * kPart);
      gather.run(Operation::AllGather, variant);
      exchange.run(Operation::AllToAll, variant);
      broadcast.run(Operation::Broadcast, variant);
      for (int rank = 0; rank < ranks; ++rank)
        for (int64_t i = 0; i < ranks * kPart; ++i) {
          const int from = static_cast<int>(i / kPart);
          ASSERT_EQ(gather.out(rank, i), Stage::value(from, i % kPart, 1)) << variant;
          ASSERT_EQ(exchange.out(rank, i), Stage::value(from, rank * kPart + i % kPart, 1));
          ASSERT_EQ(broadcast.out(rank, i), Stage::value(0, i, 129)) << variant << " at " << i;
        }
    }
}

TEST(CollectiveFloor, AllReduceWritesEveryElementOfEveryVector) {
  for (const int ranks : kRanks)
    for (int variant = 0; variant < kFloorVariants; ++variant) {
      Stage stage(ranks, ranks * kPart);
      stage.run(Operation::AllReduce, variant);
      for (int rank = 0; rank < ranks; ++rank)
        for (int64_t i = 0; i < ranks * kPart; ++i)
          ASSERT_EQ(stage.out(rank, i), Stage::value(0, i, 129)) << variant << " at " << i;
    }
}

TEST(CollectiveFloor, ReduceScatterWritesTheOwnPart) {
  for (const int ranks : kRanks)
    for (int variant = 0; variant < kFloorVariants; ++variant) {
      Stage stage(ranks, ranks * kPart);
      stage.run(Operation::ReduceScatter, variant);
      for (int rank = 0; rank < ranks; ++rank)
        for (int64_t i = 0; i < kPart; ++i)
          ASSERT_EQ(stage.out(rank, i), Stage::value(0, rank * kPart + i, 1)) << variant;
    }
}

}  // namespace
}  // namespace sextant

#include "tensor/arena.h"

#include <map>

#include "base/random.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr int64_t kLimit = int64_t{1} << 20;

Tensor bytes_for(Arena& arena, int64_t bytes, Category category = Category::Activations) {
  return arena.allocate(category, DType::F8E4M3, {bytes});
}

TEST(Arena, CountsCurrentAndPeakBytesByCategory) {
  Arena arena(Device{}, kLimit);
  Tensor weights = arena.allocate(Category::Weights, DType::F32, {25});
  {
    const Tensor a = bytes_for(arena, 1000), b = bytes_for(arena, 500);
    EXPECT_EQ(arena.current(Category::Activations), 1500);
    EXPECT_EQ(arena.current(), 1600);
  }
  EXPECT_EQ(arena.current(Category::Activations), 0);
  EXPECT_EQ(arena.peak(Category::Activations), 1500);
  EXPECT_EQ(arena.current(Category::Weights), 100);
  EXPECT_EQ(arena.peaks()[static_cast<size_t>(Category::Weights)], 100);
  EXPECT_EQ(arena.peak(), 1600);
  EXPECT_EQ(arena.current(Category::Optimizer), 0);
  arena.reset_peaks();
  EXPECT_EQ(arena.peak(Category::Activations), 0);
  EXPECT_EQ(arena.peak(), 100);
}

TEST(Arena, RefusesALimitThatNoAddressSpaceHolds) {
  for (const int64_t limit : {int64_t{-1}, int64_t{0}, int64_t{1} << 46, INT64_MAX})
    EXPECT_ERROR(Arena(Device{}, limit), Config, concat("a memory limit of ", limit, " bytes"));
}

TEST(Arena, PeakOfTheSumIsNotTheSumOfPeaks) {
  Arena arena(Device{}, kLimit);
  { const Tensor a = bytes_for(arena, 1000, Category::Gradients); }
  { const Tensor b = bytes_for(arena, 700, Category::Workspace); }
  EXPECT_EQ(arena.peak(), 1000);
}

TEST(Arena, NamesEveryCategory) {
  EXPECT_EQ(name_of(Category::Weights), "weights");
  EXPECT_EQ(name_of(Category::Communication), "communication");
}

TEST(Arena, RefusesMoreThanItsLimit) {
  Arena arena(Device{}, 1000);
  Tensor a = bytes_for(arena, 600);
  EXPECT_ERROR((void)bytes_for(arena, 401, Category::Gradients), Memory,
               "a gradients tensor [401] of 401 B does not fit: 600 B of 1000 B are in use");
  const Tensor b = bytes_for(arena, 400);
  EXPECT_EQ(arena.current(), 1000);
  a = Tensor();
  EXPECT_NO_THROW((void)bytes_for(arena, 600));
}

TEST(Arena, AddressesAreAlignedAndReused) {
  Arena arena(Device{}, kLimit);
  Tensor a = bytes_for(arena, 1), b = bytes_for(arena, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.raw()) % 64, 0u);
  const std::byte* address = b.raw();
  b = Tensor();
  b = bytes_for(arena, 90);
  EXPECT_EQ(b.raw(), address);
}

TEST(Arena, TakesTheTightestHole) {
  Arena arena(Device{}, kLimit);
  Tensor wide = bytes_for(arena, 640), wall1 = bytes_for(arena, 64);
  Tensor tight = bytes_for(arena, 128), wall2 = bytes_for(arena, 64);
  const std::byte* hole = tight.raw();
  wide = Tensor();
  tight = Tensor();
  EXPECT_EQ(bytes_for(arena, 128).raw(), hole);
}

// Addresses of a step: a mix of lifetimes, the same in every round.
std::vector<const std::byte*> one_step(Arena& arena) {
  const Random random(5, "step");
  std::vector<const std::byte*> addresses;
  std::map<uint64_t, Tensor> alive;
  for (uint64_t i = 0; i < 300; ++i) {
    if (alive.size() > 20 || (i % 3 == 2 && !alive.empty())) {
      auto victim = alive.begin();
      std::advance(victim, static_cast<int64_t>(random.below(alive.size(), i, 1)));
      alive.erase(victim);
    }
    const Tensor made = bytes_for(arena, static_cast<int64_t>(random.below(5000, i)));
    addresses.push_back(made.raw());
    alive.emplace(i, made);
  }
  return addresses;
}

TEST(Arena, TheSameCallsGiveTheSameAddressesAndNothingNewIsNeeded) {
  Arena arena(Device{}, kLimit), other(Device{}, kLimit);
  const std::vector<const std::byte*> first = one_step(arena);
  EXPECT_EQ(one_step(arena), first);
  const int64_t allocations = arena.allocations(), reserved = arena.reserved();
  EXPECT_GT(allocations, 0);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(one_step(arena), first);
  EXPECT_EQ(arena.allocations(), allocations);
  EXPECT_EQ(arena.reserved(), reserved);
  const std::vector<const std::byte*> elsewhere = one_step(other);
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(elsewhere[i] - other.region().data(), first[i] - arena.region().data());
}

TEST(Arena, RandomLifetimesNeverOverlapAndMergeToOneRangeAgain) {
  Arena arena(Device{}, kLimit);
  const Random random(6, "lifetimes");
  std::map<const std::byte*, Tensor> alive;  // by address
  for (uint64_t i = 0; i < 20000; ++i) {
    if (!alive.empty() && random.below(100, i, 1) < 50) {
      auto victim = alive.begin();
      std::advance(victim, static_cast<int64_t>(random.below(alive.size(), i, 2)));
      alive.erase(victim);
      continue;
    }
    const auto bytes = static_cast<int64_t>(random.below(3000, i));
    if (arena.current() + bytes > kLimit) continue;
    const Tensor made = bytes_for(arena, bytes);
    ASSERT_GE(made.raw(), arena.region().data());
    ASSERT_LE(made.raw() + bytes, arena.region().data() + arena.region().bytes());
    const auto [place, is_new] = alive.emplace(made.raw(), made);
    ASSERT_TRUE(is_new);
    if (place != alive.begin()) {
      ASSERT_LE(std::prev(place)->first + std::prev(place)->second.bytes(), made.raw());
    }
    if (std::next(place) != alive.end()) {
      ASSERT_LE(made.raw() + bytes, std::next(place)->first);
    }
  }
  alive.clear();
  EXPECT_EQ(arena.current(), 0);
  EXPECT_EQ(bytes_for(arena, kLimit).raw(), arena.region().data());
}

TEST(Arena, ZeroBytesAreATensorToo) {
  Arena arena(Device{}, kLimit);
  const Tensor a = bytes_for(arena, 0), b = bytes_for(arena, 0);
  EXPECT_TRUE(a);
  EXPECT_NE(a.raw(), b.raw());
  EXPECT_EQ(arena.current(), 0);
}

TEST(ArenaDeathTest, RefusesToGoBeforeItsTensors) {
  EXPECT_DEATH(
      {
        Tensor left;
        Arena arena(Device{}, kLimit);
        left = bytes_for(arena, 10);
      },
      "arena destroyed while 1 tensors live");
}

}  // namespace
}  // namespace sextant

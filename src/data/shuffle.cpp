// A Feistel network over 2h bits is a permutation of [0, 4^h) for any round function; following its
// cycle until the value is below `count` gives a permutation of [0, count). 4^h < 4 count, so this
// takes fewer than four steps on average.
#include "data/shuffle.h"

#include <bit>

#include "base/error.h"
#include "base/random.h"

namespace sextant {
namespace {

constexpr uint32_t kRounds = 6;
constexpr uint32_t kPurpose = 0x5f5f;  // separates these draws from others with the same key

}  // namespace

int64_t shuffled(int64_t index, int64_t count, uint64_t seed, int64_t epoch) {
  SXT_CHECK(index >= 0 && index < count, Internal, "shuffled: index ", index, " of ", count);
  if (count == 1) return 0;
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const int half = (bits + 1) / 2;
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half) - 1);
  const PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ kPurpose};
  auto value = static_cast<uint64_t>(index);
  do {
    auto left = static_cast<uint32_t>(value >> half) & mask;
    auto right = static_cast<uint32_t>(value) & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t mixed = philox(
          {right, round, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)}, key)[0];
      const uint32_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    value = static_cast<uint64_t>(left) << half | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace sextant

#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "base/host_device.h"

namespace sextant {

// Philox4x32-10: a counter-based generator. A number depends on (counter, key) only, not on the
// order of draws, the rank, the thread or the device. Forced inline: sources for several
// instruction sets include this side by side.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
[[gnu::always_inline]] SXT_HOST_DEVICE inline std::array<uint32_t, 4> philox(PhiloxCounter c,
                                                                             PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k = {k[0] + 0x9E3779B9, k[1] + 0xBB67AE85};
  }
  return c;
}

// In (0, 1), 23 bits, never 0 or 1.
[[gnu::always_inline]] SXT_HOST_DEVICE inline double uniform_of(uint32_t bits) {
  return ((bits >> 9) + 0.5) * 0x1p-23;
}

// Four normal numbers from four words (Box-Muller). The math library decides their last bit.
[[gnu::always_inline]] SXT_HOST_DEVICE inline std::array<double, 4> normals_of(
    const std::array<uint32_t, 4>& words) {
  std::array<double, 4> out{};
  for (int pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform_of(words[pair])));
    const double angle = 2 * std::numbers::pi * uniform_of(words[pair + 1]);
    out[pair] = radius * std::cos(angle);
    out[pair + 1] = radius * std::sin(angle);
  }
  return out;
}

// A 64-bit hash that never changes (FNV-1a, then mixed), for example of a parameter's global name.
uint64_t stable_hash(std::string_view text);

// Random numbers keyed by seed and name: (element, purpose) always gives the same number.
class Random {
 public:
  Random(uint64_t seed, std::string_view name);

  // Element e is word e % 4 of the counter {block, block >> 32, 0, purpose} with block = e / 4.
  PhiloxKey key() const { return key_; }

  uint32_t bits(uint64_t element, uint32_t purpose = 0) const;
  float uniform(uint64_t element, uint32_t purpose = 0) const;  // in (0, 1), 23 bits, never 0 or 1
  double normal(uint64_t element, uint32_t purpose = 0) const;  // mean 0, std 1
  // Four consecutive normals, elements 4 * block ... 4 * block + 3.
  std::array<double, 4> normals(uint64_t block, uint32_t purpose = 0) const;
  // In [0, bound), without bias.
  uint64_t below(uint64_t bound, uint64_t element, uint32_t purpose = 0) const;

 private:
  std::array<uint32_t, 4> block(uint64_t block, uint32_t purpose) const;

  PhiloxKey key_;
};

}  // namespace sextant

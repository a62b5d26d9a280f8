#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace sextant {

// Philox4x32-10: a counter-based generator. A number depends on (counter, key) only, not on the
// order of draws, the rank or the thread.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;
std::array<uint32_t, 4> philox(PhiloxCounter counter, PhiloxKey key);

// A 64-bit hash that never changes (FNV-1a, then mixed), for example of a parameter's global name.
uint64_t stable_hash(std::string_view text);

// Random numbers keyed by seed and name: (element, purpose) always gives the same number.
class Random {
 public:
  Random(uint64_t seed, std::string_view name);

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

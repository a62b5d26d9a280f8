#include "base/random.h"

#include "base/error.h"

namespace sextant {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

uint64_t stable_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char ch : text) hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3ULL;
  return mix(hash);
}

Random::Random(uint64_t seed, std::string_view name) {
  const uint64_t key = mix(seed) ^ stable_hash(name);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

std::array<uint32_t, 4> Random::block(uint64_t block, uint32_t purpose) const {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, purpose},
                key_);
}

uint32_t Random::bits(uint64_t element, uint32_t purpose) const {
  return block(element / 4, purpose)[element % 4];
}

float Random::uniform(uint64_t element, uint32_t purpose) const {
  return static_cast<float>(uniform_of(bits(element, purpose)));
}

std::array<double, 4> Random::normals(uint64_t index, uint32_t purpose) const {
  return normals_of(block(index, purpose));
}

double Random::normal(uint64_t element, uint32_t purpose) const {
  return normals(element / 4, purpose)[element % 4];
}

uint64_t Random::below(uint64_t bound, uint64_t element, uint32_t purpose) const {
  SXT_CHECK(bound > 0, Internal, "Random::below: bound is 0");
  // Multiply-shift with rejection; a rejected draw continues with another counter word.
  for (uint32_t attempt = 0;; ++attempt) {
    const std::array<uint32_t, 4> x =
        philox({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32), 1 + attempt,
                purpose},
               key_);
    const uint64_t draw = (uint64_t{x[1]} << 32) | x[0];
    const unsigned __int128 product = static_cast<unsigned __int128>(draw) * bound;
    const uint64_t low = static_cast<uint64_t>(product);
    if (low >= (0 - bound) % bound) return static_cast<uint64_t>(product >> 64);
  }
}

}  // namespace sextant

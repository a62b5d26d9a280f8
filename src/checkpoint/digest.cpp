#include "checkpoint/digest.h"

#include <xxhash.h>

namespace sextant {
namespace {

std::string to_hex(const XXH128_hash_t& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kDigits[half >> shift & 15]);
  return out;
}

}  // namespace

struct Digest::State {
  XXH3_state_t xxh3;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh3);
}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  return to_hex(XXH3_128bits_digest(&state_->xxh3));
}

std::string digest_of(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest_of(std::string_view text) {
  return digest_of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace sextant

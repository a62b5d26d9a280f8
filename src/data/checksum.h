#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sextant {

// XXH3, 64 bits: detects damage; not cryptographic.
uint64_t checksum(std::span<const std::byte> bytes);
uint64_t checksum(std::string_view text);

}  // namespace sextant

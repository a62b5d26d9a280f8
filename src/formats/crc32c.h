#pragma once
#include <cstdint>
#include <string_view>

namespace sextant {

// CRC-32C (Castagnoli), the checksum of TFRecord framing.
uint32_t crc32c(std::string_view bytes);

}  // namespace sextant

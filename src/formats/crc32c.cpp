#include "formats/crc32c.h"

#include <array>

namespace sextant {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82F63B78;

// Entry b is what eight steps of the shift register make of byte b.
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? value >> 1 ^ kReversedPolynomial : value >> 1;
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t state = ~0u;
  for (const char c : bytes) state = state >> 8 ^ kTable[(state ^ static_cast<uint8_t>(c)) & 0xff];
  return ~state;
}

}  // namespace sextant

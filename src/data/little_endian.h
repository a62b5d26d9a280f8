#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace sextant {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

// The value at a checked byte offset; files have no alignment.
template <class T>
T load(std::span<const std::byte> bytes, int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void store(std::vector<std::byte>& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

}  // namespace sextant

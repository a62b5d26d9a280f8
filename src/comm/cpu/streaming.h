#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace sextant {

// copy_bytes: as memcpy. stream_bytes: a copy with non-temporal stores, which are weakly ordered:
// call end_streaming before signalling another thread that the data is ready.
#if defined(__AVX2__)
// Reads two cache lines before writing them: faster than memcpy for data mostly in the cache.
inline void copy_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  constexpr int64_t kVector = 32, kStep = 4 * kVector;
  if (bytes < 4 * kStep) {
    std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  int64_t i = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) & (kVector - 1));
  std::memcpy(out, in, static_cast<size_t>(i));
  for (; i + kStep <= bytes; i += kStep) {
    __m256i step[4];
    for (int v = 0; v < 4; ++v)
      step[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i + v * kVector));
    for (int v = 0; v < 4; ++v)
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + i + v * kVector), step[v]);
  }
  std::memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}
inline void stream_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  constexpr int64_t kLine = 32;
  const int64_t head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) & (kLine - 1));
  if (bytes < head + kLine) {
    std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  std::memcpy(out, in, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLine <= bytes; i += kLine)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)));
  std::memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}
inline void end_streaming() {
  _mm_sfence();
}
#else
inline void copy_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  std::memcpy(out, in, static_cast<size_t>(bytes));
}
inline void stream_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  std::memcpy(out, in, static_cast<size_t>(bytes));
}
inline void end_streaming() {}
#endif

}  // namespace sextant

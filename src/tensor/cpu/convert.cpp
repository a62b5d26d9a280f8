#include "tensor/convert.h"

#include <cstring>

namespace sextant {
namespace {

template <class To, class From>
[[gnu::always_inline]] inline To convert_one(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsNarrow<From>) {
    return convert_one<To>(widen(x));
  } else if constexpr (kIsNarrow<To>) {
    return round_nearest<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Through blocks in local arrays: bytes of a file may be unaligned, and loops over arrays that
// cannot alias are vectorized.
template <class To, class From>
void convert_all(std::byte* to, const std::byte* from, int64_t count) {
  constexpr int64_t kBlock = 256;
  From values[kBlock];
  To results[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const auto length = static_cast<size_t>(std::min(kBlock, count - begin));
    std::memcpy(values, from + begin * static_cast<int64_t>(sizeof(From)), length * sizeof(From));
    for (size_t i = 0; i < length; ++i) results[i] = convert_one<To>(values[i]);
    std::memcpy(to + begin * static_cast<int64_t>(sizeof(To)), results, length * sizeof(To));
  }
}

}  // namespace

void convert(DType to_type, std::byte* to, DType from_type, const std::byte* from, int64_t count) {
  with_floating(to_type, [&]<class To>(To) {
    with_floating(from_type, [&]<class From>(From) { convert_all<To, From>(to, from, count); });
  });
}

}  // namespace sextant

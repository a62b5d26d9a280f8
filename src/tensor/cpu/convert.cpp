#include "tensor/convert.h"

#include <cstring>

namespace sextant {
namespace {

template <class To, class From>
To convert_one(From x) {
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

// Through memcpy, because bytes from a file have no alignment.
template <class To, class From>
void convert_all(std::byte* to, const std::byte* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof value);
    const To result = convert_one<To>(value);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &result, sizeof result);
  }
}

}  // namespace

void convert(DType to_type, std::byte* to, DType from_type, const std::byte* from, int64_t count) {
  with_floating(to_type, [&]<class To>(To) {
    with_floating(from_type, [&]<class From>(From) { convert_all<To, From>(to, from, count); });
  });
}

}  // namespace sextant

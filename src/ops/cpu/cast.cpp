#include "ops/cast.h"

#include "base/random.h"
#include "tensor/convert.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 16384;

template <class To, class From>
To cast_by_chance(From x, uint32_t random) {
  if constexpr (kIsNarrow<From>) {
    return cast_by_chance<To>(widen(x), random);
  } else if constexpr (sizeof(To) < sizeof(From)) {
    return round_stochastic<To>(x, random);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void cast_by_chance(To* to, const From* from, int64_t begin, int64_t end, uint64_t seed,
                    int64_t first_element) {
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::array<uint32_t, 4> draws{};
  uint64_t drawn = UINT64_MAX;
  for (int64_t i = begin; i < end; ++i) {
    const auto element = static_cast<uint64_t>(first_element + i);
    if (drawn != element / 4) {
      drawn = element / 4;
      draws = philox({static_cast<uint32_t>(drawn), static_cast<uint32_t>(drawn >> 32), 0, 0}, key);
    }
    to[i] = cast_by_chance<To>(from[i], draws[element % 4]);
  }
}

}  // namespace

void cast(Stream& stream, Tensor& y, const Tensor& x, Rounding rounding, uint64_t seed,
          int64_t first_element) {
  if (rounding == Rounding::NearestEven) {
    stream.team().for_pieces(x.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      convert(y.dtype(), y.raw() + begin * size_of(y.dtype()), x.dtype(),
              x.raw() + begin * size_of(x.dtype()), end - begin);
    });
    return;
  }
  with_floating(y.dtype(), [&]<class To>(To) {
    with_floating(x.dtype(), [&]<class From>(From) {
      To* to = y.data<To>();
      const From* from = x.data<From>();
      stream.team().for_pieces(x.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
        cast_by_chance(to, from, begin, end, seed, first_element);
      });
    });
  });
}

}  // namespace sextant::cpu

#include "ops/random_fill.h"

#include <algorithm>

#include "base/random.h"
#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 4096;

// Draws first ... first + count - 1.
template <class T>
void draw(T* y, int64_t count, const Random& random, double std, int64_t first) {
  for (int64_t i = 0; i < count;) {
    const auto element = static_cast<uint64_t>(first + i);
    const std::array<double, 4> four = random.normals(element / 4);
    for (uint64_t slot = element % 4; slot < 4 && i < count; ++slot, ++i)
      y[i] = element_of<T>(static_cast<Compute<T>>(std * four[slot]));
  }
}

template <class T>
void constants(Stream& stream, T* y, int64_t count, T value) {
  stream.team().for_pieces(count, kGrain, [&](int64_t begin, int64_t end, int) {
    std::fill(y + begin, y + end, value);
  });
}

}  // namespace

void fill_normal(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                 int64_t first_element) {
  const Random random(seed, name);
  with_float(y.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    stream.team().for_pieces(y.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      draw(to + begin, end - begin, random, std, first_element + begin);
    });
  });
}

void fill_constant(Stream& stream, Tensor& y, double value) {
  with_float(y.dtype(), [&]<class T>(T) {
    constants(stream, y.data<T>(), y.elements(), element_of<T>(static_cast<Compute<T>>(value)));
  });
}

}  // namespace sextant::cpu

#include "ops/quantize_turned.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/cpu/packs.h"

namespace sextant::cpu {

decltype(sextant::quantize_turned) quantize_turned;
decltype(sextant::quantize_turned_tiles) quantize_turned_tiles;

namespace {

// Absolute values ascend as their bits do, and NaN is above infinity.
uint32_t magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffU;
}

// f(Q{}, the elements of x as floats).
template <class F>
void with_types(const Tensor& turned, const Tensor& x, F&& f) {
  with_float(x.dtype(), [&]<class T>(T) {
    const T* from = x.data<T>();
    const auto value = [from](int64_t at) { return static_cast<float>(value_of(from[at])); };
    if (turned.dtype() == DType::F8E4M3)
      f(f8e4m3{}, value);
    else
      f(f8e5m2{}, value);
  });
}

// Infinity becomes NaN, whatever the factor.
template <class Q>
Q code_of(float x, float factor) {
  return round_nearest<Q>(x * factor - (x - x));
}

}  // namespace

void quantize_turned(Stream&, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const DelayedAmax& delayed) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  if (delayed.used) *amax.data<float>() = *delayed.used.data<float>();
  const float factor = fp8_factor(*amax.data<float>(), turned.dtype());
  uint32_t most = 0;
  with_types(turned, x, [&]<class Q>(Q, const auto& value) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const float own = value(row * columns + column);
        most = std::max(most, magnitude(own));
        const Q code = code_of<Q>(own, factor);
        if (q) q.data<Q>()[row * columns + column] = code;
        turned.data<Q>()[column * rows + row] = code;
      }
  });
  if (Tensor found = delayed.found)
    *found.data<float>() = std::bit_cast<float>(std::max(most, magnitude(*found.data<float>())));
}

void quantize_turned_tiles(Stream&, Tensor& q, Tensor& amax, Tensor& turned, Tensor& turned_amax,
                           const Tensor& x) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  with_types(turned, x, [&]<class Q>(Q, const auto& value) {
    // Of a form with `lines` lines of `length`, element i of a line at place(line, i) of x.
    const auto make = [&](Tensor& codes, Tensor& largest, int64_t lines, int64_t length,
                          const auto& place) {
      for (int64_t line = 0; line < lines; ++line)
        for (int64_t first = 0; first < length; first += kScaleBlock) {
          const int64_t end = std::min(length, first + kScaleBlock);
          uint32_t most = 0;
          for (int64_t i = first; i < end; ++i)
            most = std::max(most, magnitude(value(place(line, i))));
          const float found = std::bit_cast<float>(most);
          largest.data<float>()[line * largest.dim(1) + first / kScaleBlock] = found;
          const float factor = fp8_factor(found, codes.dtype());
          for (int64_t i = first; i < end; ++i)
            codes.data<Q>()[line * length + i] = code_of<Q>(value(place(line, i)), factor);
        }
    };
    if (q) make(q, amax, rows, columns, [&](int64_t row, int64_t i) { return row * columns + i; });
    make(turned, turned_amax, columns, rows,
         [&](int64_t column, int64_t i) { return i * columns + column; });
  });
}

}  // namespace sextant::cpu

#include "ops/quantize_turned.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "ops/cpu/packs.h"

namespace sextant::cpu {

decltype(sextant::quantize_turned) quantize_turned;
decltype(sextant::quantize_turned_tiles) quantize_turned_tiles;
decltype(sextant::activated_amax) activated_amax;
decltype(sextant::sum_turned_tiles) sum_turned_tiles;

namespace {

// Absolute values ascend as their bits do, and NaN is above infinity.
uint32_t magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffU;
}

// The elements of x activated, rounded to its type.
std::vector<float> values_of(const Tensor& x, const Activated& activated) {
  const int64_t count = x.elements();
  std::vector<float> values(static_cast<size_t>(count));
  with_float(x.dtype(), [&]<class T>(T) {
    const T* from = x.data<T>();
    std::vector<T> formed(from, from + count);
    if (activated.activation != Activation::None) {
      const bool is_exact = activated.activation == Activation::GeluExact;
      const T* before = activated.backward_of ? activated.backward_of.data<T>() : nullptr;
      for_packs<Compute<T>>(0, count, [&](auto at) {
        const VectorOf<T> own = at(from), point = before == nullptr ? own : at(before);
        if (before == nullptr)
          at.put(formed.data(), is_exact ? gelu_exact(own) : gelu_tanh(own));
        else
          at.put(formed.data(), own * (is_exact ? gelu_exact_grad(point) : gelu_tanh_grad(point)));
      });
    }
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value_of(formed[i]));
  });
  return values;
}

// f(Q{}) for the type of codes.
template <class F>
void with_codes(DType dtype, F&& f) {
  if (dtype == DType::F8E4M3) return f(f8e4m3{});
  f(f8e5m2{});
}

// Infinity becomes NaN, whatever the factor.
template <class Q>
Q code_of(float x, float factor) {
  return round_nearest<Q>(x * factor - (x - x));
}

// Of the transposed codes of each tile, with scale(column, tile). Nothing without sums.
template <class Q, class Scale>
void sum_tiles(Tensor sums, const Tensor& turned, Scale&& scale) {
  if (!sums) return;
  const int64_t columns = turned.dim(0), rows = turned.dim(1);
  for (int64_t tile = 0; tile < sums.dim(0); ++tile)
    for (int64_t column = 0; column < columns; ++column) {
      float sum = 0;
      const int64_t end = std::min(rows, (tile + 1) * kTurnedTile);
      for (int64_t row = tile * kTurnedTile; row < end; ++row)
        sum += widen(turned.data<Q>()[column * rows + row]) * scale(column, tile);
      sums.data<float>()[tile * columns + column] = sum;
    }
}

}  // namespace

void quantize_turned(Stream&, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const Turning& turning) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const DType dtype = turned ? turned.dtype() : q.dtype();
  const std::vector<float> values = values_of(x, turning.activated);
  if (turning.delayed.used) *amax.data<float>() = *turning.delayed.used.data<float>();
  const float largest = *amax.data<float>(), factor = fp8_factor(largest, dtype);
  uint32_t most = 0;
  with_codes(dtype, [&]<class Q>(Q) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const float own = values[static_cast<size_t>(row * columns + column)];
        most = std::max(most, magnitude(own));
        const Q code = code_of<Q>(own, factor);
        if (q) q.data<Q>()[row * columns + column] = code;
        if (turned) turned.data<Q>()[column * rows + row] = code;
      }
    sum_tiles<Q>(turning.sums, turned, [&](int64_t, int64_t) { return fp8_scale(largest, dtype); });
  });
  if (Tensor found = turning.delayed.found)
    *found.data<float>() = std::bit_cast<float>(std::max(most, magnitude(*found.data<float>())));
}

void quantize_turned_tiles(Stream&, Tensor& q, Tensor& amax, Tensor& turned, Tensor& turned_amax,
                           const Tensor& x, const Turning& turning) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const std::vector<float> values = values_of(x, turning.activated);
  with_codes(turned ? turned.dtype() : q.dtype(), [&]<class Q>(Q) {
    // Of a form with `lines` lines of `length`, element i of a line at place(line, i) of x.
    const auto make = [&](Tensor& codes, Tensor& largest, int64_t lines, int64_t length,
                          const auto& place) {
      for (int64_t line = 0; line < lines; ++line)
        for (int64_t first = 0; first < length; first += kScaleBlock) {
          const int64_t end = std::min(length, first + kScaleBlock);
          uint32_t most = 0;
          for (int64_t i = first; i < end; ++i)
            most = std::max(most, magnitude(values[static_cast<size_t>(place(line, i))]));
          const float found = std::bit_cast<float>(most);
          largest.data<float>()[line * largest.dim(1) + first / kScaleBlock] = found;
          const float factor = fp8_factor(found, codes.dtype());
          for (int64_t i = first; i < end; ++i)
            codes.data<Q>()[line * length + i] =
                code_of<Q>(values[static_cast<size_t>(place(line, i))], factor);
        }
    };
    if (q) make(q, amax, rows, columns, [&](int64_t row, int64_t i) { return row * columns + i; });
    if (turned)
      make(turned, turned_amax, columns, rows,
           [&](int64_t column, int64_t i) { return i * columns + column; });
    sum_tiles<Q>(turning.sums, turned, [&](int64_t column, int64_t tile) {
      return fp8_scale(turned_amax.data<float>()[column * turned_amax.dim(1) + tile],
                       turned.dtype());
    });
  });
}

void activated_amax(Stream&, Tensor& amax, const Tensor& x, const Activated& activated) {
  uint32_t most = 0;
  for (const float value : values_of(x, activated)) most = std::max(most, magnitude(value));
  *amax.data<float>() = std::bit_cast<float>(most);
}

void sum_turned_tiles(Stream&, Tensor& out, const Tensor& sums, Write write) {
  const int64_t columns = sums.dim(1);
  const float* from = sums.data<float>();
  with_float(out.dtype(), [&]<class Out>(Out) {
    Out* to = out.data<Out>();
    for (int64_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (int64_t tile = 0; tile < sums.dim(0); ++tile) sum += from[tile * columns + column];
      to[column] = element_of<Out>(write == Write::Add ? value_of(to[column]) + sum : sum);
    }
  });
}

}  // namespace sextant::cpu

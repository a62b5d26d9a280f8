#pragma once
#include "ops/cpu/attention_tile.h"

// Bringing rows of a tensor into panels.
namespace sextant::cpu {

// Rows of one head lie a page or more apart, where the hardware does not look ahead.
inline constexpr int64_t kAhead = 16;
template <class T>
SXT_INLINE void prefetch_row(const T* row, int64_t width) {
  for (int64_t i = 0; i < width; i += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(row + i);
}

// rows[count, width] times scale, as panels of `capacity` rows each; columns filled up with zeros.
//   panels: [whole_panels(width) / kPanel, capacity, kPanel]
template <class T, class S>
void pack_panels(T* panels, const S* rows, int64_t stride, int64_t count, int64_t width,
                 int64_t capacity, T scale) {
  using V = VectorOf<T>;
  for (int64_t row = 0; row < count; ++row) {
    prefetch_row(rows + (row + kAhead) * stride, width);
    for (int64_t column = 0; column < width; column += kPanel<T>) {
      T* to = panels + column * capacity + row * kPanel<T>;
      const S* from = rows + row * stride + column;
      const int64_t left = width - column;
      store<V>(to, load_some<V>(from, left) * scale);
      store<V>(to + kLanes<V>,
               left > kLanes<V> ? load_some<V>(from + kLanes<V>, left - kLanes<V>) * scale : V{});
    }
  }
}

// Rows i of a square become its columns i: pairs, then quads, then halves change places.
SXT_INLINE void transpose(f32x8 (&x)[8]) {
  f32x8 y[8];
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = i; j < i + 2; ++j) {
      x[j] = __builtin_shufflevector(y[j], y[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[j + 2] = __builtin_shufflevector(y[j], y[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) x[i] = y[i];
}
SXT_INLINE void transpose(f64x4 (&x)[4]) {
  f64x4 y[4];
  for (int i = 0; i < 4; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 2, 6);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 4, 5);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 6, 7);
  }
}

// The transpose of rows[count, width] times scale, as panels of `width` rows each.
//   panels: [whole_panels(count) / kPanel, width, kPanel]
template <class T, class S>
void pack_transposed(T* panels, const S* rows, int64_t stride, int64_t count, int64_t width,
                     T scale) {
  using V = VectorOf<T>;
  constexpr int64_t kSide = kLanes<V>;
  for (int64_t first = 0; first < whole_panels<T>(count); first += kSide) {
    T* to = panels + first / kPanel<T> * kPanel<T> * width + first % kPanel<T>;
    const S* from = rows + first * stride;
    const int64_t real = std::clamp<int64_t>(count - first, 0, kSide);
    for (int64_t i = 0; i < real; ++i) prefetch_row(from + (i + kAhead) * stride, width);
    int64_t column = 0;
    for (; real == kSide && column + kSide <= width; column += kSide) {
      V square[kSide];
      for (int64_t i = 0; i < kSide; ++i) square[i] = load<V>(from + i * stride + column) * scale;
      transpose(square);
      for (int64_t i = 0; i < kSide; ++i) store<V>(to + (column + i) * kPanel<T>, square[i]);
    }
    for (; column < width; ++column)
      for (int64_t lane = 0; lane < kSide; ++lane)
        to[column * kPanel<T> + lane] =
            lane < real ? value_of(from[lane * stride + column]) * scale : T{0};
  }
}

}  // namespace sextant::cpu

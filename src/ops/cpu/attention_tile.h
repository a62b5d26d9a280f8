#pragma once
// What attention forward and backward are made of: panels, products of panels, powers of two.
// A matrix on the right of a product lies in panels of kPanel columns, each row of a panel
// contiguous. An element of a product is one chain of fused multiply-adds in ascending k, so its
// bits do not depend on the tile it was computed in; terms that a mask excludes are exact zeros.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/error.h"
#include "ops/cpu/packs.h"

namespace sextant::cpu {

inline constexpr int64_t kStrip = 6;  // rows of a product computed together
template <class T>
inline constexpr int64_t kPanel = 2 * kLanes<VectorOf<T>>;  // and columns: two registers a row
inline constexpr int64_t kKeys = 96;                        // of a tile; whole strips, whole panels
inline constexpr int64_t kQueries = 48;                     // of a tile; whole strips

template <class T>
constexpr int64_t whole_panels(int64_t columns) {
  return (columns + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
}

// Where element (row, k) of a product's left matrix lies.
//   Rows     at row * stride + k
//   Columns  at k * stride + row
//   Panels   as a right matrix would, in panels that are `stride` elements apart
enum class Left { Rows, Columns, Panels };

// What a product is added to: nothing, c, or c with each row times its factor.
enum class Onto { Nothing, Sum, ScaledSum };

// c[kStrip, kPanel] = onto + a * panel over k terms.
template <Left kLeft, Onto kOnto, class T>
SXT_INLINE void multiply_strip(T* c, int64_t c_stride, const T* a, int64_t a_stride, const T* panel,
                               int64_t k, const T* factors) {
  using V = VectorOf<T>;
  constexpr int64_t kWidth = kLanes<V>;
  const auto start = [&](int64_t row, int64_t half) {
    if (kOnto == Onto::Nothing) return V{};
    const V before = load<V>(c + row * c_stride + half * kWidth);
    return kOnto == Onto::Sum ? before : before * factors[row];
  };
  // Named, because compilers keep an array of accumulators in memory.
  V c00 = start(0, 0), c01 = start(0, 1), c10 = start(1, 0), c11 = start(1, 1);
  V c20 = start(2, 0), c21 = start(2, 1), c30 = start(3, 0), c31 = start(3, 1);
  V c40 = start(4, 0), c41 = start(4, 1), c50 = start(5, 0), c51 = start(5, 1);
  const int64_t row = kLeft == Left::Columns ? 1 : kLeft == Left::Panels ? kPanel<T> : a_stride;
  const int64_t next = kLeft == Left::Columns ? a_stride : 1;
  const auto add_terms = [&](int64_t count) {
    const T* at = a;
    for (int64_t i = 0; i < count; ++i, at += next) {
      const V b0 = load<V>(panel), b1 = load<V>(panel + kWidth);
      panel += 2 * kWidth;
      const auto add = [&](V& left, V& right, T factor) {
        const V x = factor - V{};
        left = fma(x, b0, left);
        right = fma(x, b1, right);
      };
      add(c00, c01, at[0]);
      add(c10, c11, at[row]);
      add(c20, c21, at[2 * row]);
      add(c30, c31, at[3 * row]);
      add(c40, c41, at[4 * row]);
      add(c50, c51, at[5 * row]);
    }
  };
  if (kLeft == Left::Panels) {
    for (; k >= kPanel<T>; k -= kPanel<T>, a += a_stride) add_terms(kPanel<T>);
  }
  add_terms(k);
  const auto finish = [&](int64_t i, V left, V right) {
    store<V>(c + i * c_stride, left);
    store<V>(c + i * c_stride + kWidth, right);
  };
  finish(0, c00, c01);
  finish(1, c10, c11);
  finish(2, c20, c21);
  finish(3, c30, c31);
  finish(4, c40, c41);
  finish(5, c50, c51);
}

// 2^x within 2e-7, for x up to 126; exactly 1 at 0, and 0 below -126.
// x = n + r with |r| <= 1/2; n is added to the exponent of the polynomial's value.
SXT_INLINE f32x8 vexp2(f32x8 x) {
  const f32x8 magic = splat<f32x8>(12582912.0);  // 1.5 * 2^23: its last bits count whole numbers
  const f32x8 shifted = x + magic;
  const f32x8 r = x - (shifted - magic);
  const double p[] = {1.0,
                      0.6931471824645996,
                      0.24022646248340607,
                      0.05550328642129898,
                      0.009618489071726799,
                      0.0013399930903688073,
                      0.0001534581242594868};
  const f32x8 power = (f32x8)((u32x8)polynomial(r, p) + ((u32x8)shifted << 23));
  return x < -126.0f ? f32x8{} : power;
}

SXT_INLINE f64x4 vexp2(f64x4 x) {
  for (int i = 0; i < 4; ++i) x[i] = std::exp2(x[i]);
  return x;
}

// The largest lane, halves first.
template <class V>
SXT_INLINE ElementOf<V> largest_of(V v) {
  for (int64_t width = kLanes<V> / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) v[lane] = std::max(v[lane], v[lane + width]);
  return v[0];
}

template <class T, class U>
Compute<T> dot(const T* a, const U* b, int64_t width) {
  return sum_packs<Compute<T>>(width, [&](auto at) { return at(a) * at(b); });
}

// Columns [begin, end).
struct Columns {
  int64_t begin = 0, end = 0;
  bool is_empty() const { return begin >= end; }
};

template <class T>
Columns to_panels(Columns c) {
  return {c.begin / kPanel<T> * kPanel<T>, whole_panels<T>(c.end)};
}

// Which keys a query sees: [begin, end), neither of which decreases from query to query. Without
// `begins` all begin at 0; without `ends` a query sees up to its own key, which `past` others come
// before. With a window it sees no more than so many.
struct Visible {
  const int32_t* begins = nullptr;
  const int32_t* ends = nullptr;
  int64_t past = 0;
  int64_t window = 0;  // 0: none

  int64_t begin(int64_t query) const {
    const int64_t first = begins == nullptr ? 0 : begins[query];
    return window == 0 ? first : std::max(first, end(query) - window);
  }
  int64_t end(int64_t query) const { return ends == nullptr ? past + query + 1 : ends[query]; }
  // The first of `count` queries whose end lies beyond the key.
  int64_t first_query(int64_t key, int64_t count) const {
    return ends == nullptr ? std::max<int64_t>(0, key - past)
                           : std::upper_bound(ends, ends + count, key) - ends;
  }
  // Keys that the queries [first, last] see, and perhaps others in between.
  Columns keys(int64_t first, int64_t last) const { return {begin(first), end(last)}; }
  // Those of the tile at `tile`, counted from the tile.
  Columns keys(int64_t first, int64_t last, int64_t tile) const {
    return {std::max<int64_t>(0, begin(first) - tile), std::min(kKeys, end(last) - tile)};
  }
};

// Cuts a thread's scratch into arrays, each beginning on a cache line.
class Carver {
 public:
  explicit Carver(std::span<std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T* take(int64_t count) {
    const size_t size = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    SXT_CHECK(size <= bytes_.size(), Internal, "attention: ", size, " bytes of scratch needed, ",
              bytes_.size(), " left");
    T* out = reinterpret_cast<T*>(bytes_.data());
    bytes_ = bytes_.subspan(size);
    return out;
  }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace sextant::cpu

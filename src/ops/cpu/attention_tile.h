#pragma once
// What attention forward and backward have in common: tiles, panels, which keys a query sees.
// A matrix on the right of a product lies in panels of kPanel columns, each row of a panel
// contiguous. An element of a product is one chain of fused multiply-adds in ascending k, so its
// bits do not depend on the tile it was computed in; terms that a mask excludes are exact zeros.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/error.h"
#include "ops/cpu/attention_kernel.h"
#include "ops/cpu/packs.h"

namespace sextant::cpu {

inline constexpr int64_t kKeys = 96;     // of a tile; whole strips, whole panels
inline constexpr int64_t kQueries = 48;  // of a tile; whole strips

template <class T>
constexpr int64_t whole_panels(int64_t columns) {
  return (columns + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
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

#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "ops/heads.h"

namespace sextant {

// First and last + 1 key of every query, row by row.
struct Bounds {
  std::vector<int32_t> begin, end;
};

// Ranges that wander forward from query to query; some are empty, some leave keys unseen.
inline Bounds random_bounds(const Heads& heads, int64_t kv_seq, uint64_t seed) {
  const Random random(seed, "bounds");
  Bounds out;
  for (int64_t i = 0; i < heads.tokens(); ++i) {
    const bool first = i % heads.seq == 0;
    const auto step = [&](int64_t before, uint32_t purpose) {
      const uint64_t most = 2 * static_cast<uint64_t>(kv_seq / heads.seq) + 3;
      const uint64_t draw = random.below(3, i, purpose) == 0
                                ? random.below(4 * most, i, purpose + 1)
                                : random.below(2, i, purpose + 1);
      return std::min(kv_seq, before + static_cast<int64_t>(draw));
    };
    out.begin.push_back(static_cast<int32_t>(step(first ? 0 : out.begin.back(), 0)));
    out.end.push_back(static_cast<int32_t>(step(first ? kv_seq / 4 : out.end.back(), 2)));
  }
  return out;
}

// Causal ranges of documents in the window, as seen from keys [first, first + count) of the row.
inline Bounds causal_bounds(const std::vector<int32_t>& starts, const Heads& heads, int64_t first,
                            int64_t count) {
  Bounds out;
  const auto within = [&](int64_t key) {
    return static_cast<int32_t>(std::clamp<int64_t>(key - first, 0, count));
  };
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end = static_cast<int64_t>(i) % heads.seq + 1;
    out.begin.push_back(within(std::max<int64_t>(starts[i], end - heads.in_window(end))));
    out.end.push_back(within(end));
  }
  return out;
}

// The queries' columns of the fused layout.
template <class T>
std::vector<T> queries_of(const std::vector<T>& fused, const Heads& heads) {
  std::vector<T> out;
  const int64_t group = heads.group() * heads.head_dim, period = group + 2 * heads.head_dim;
  for (size_t i = 0; i < fused.size(); ++i)
    if (static_cast<int64_t>(i) % period < group) out.push_back(fused[i]);
  return out;
}

}  // namespace sextant

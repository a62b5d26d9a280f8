#pragma once
#include "ops/cpu/attention_tile.h"

namespace sextant::cpu {

// One head of one row of the batch. Rows of q and out belong to queries, rows of k and v to keys.
// The result, of type O, is that of q or wider.
template <class T, class O = T>
struct HeadForward {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  O* out = nullptr;
  Compute<T>* lse = nullptr;  // one for each query, or null
  int64_t q_stride = 0, kv_stride = 0, out_stride = 0, head_dim = 0;
  Visible visible;
};

inline constexpr int64_t kMostQueries = 288;  // of one call below

// Queries [begin, end) of a head, at most kMostQueries. The bits of a query's row depend neither on
// the other queries nor on how they are cut into calls.
template <class T, class O>
void attend(const HeadForward<T, O>& head, int64_t begin, int64_t end,
            std::span<std::byte> scratch);

}  // namespace sextant::cpu

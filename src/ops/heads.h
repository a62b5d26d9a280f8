#pragma once
#include <cstdint>
#include <string_view>

namespace sextant {

// The layout of the fused qkv projection. Columns are grouped by key-value head: its query heads,
// then its key, then its value, each head_dim wide. A contiguous split between groups thus gives
// whole heads.
//   qkv: [batch * seq, kv_heads * (heads / kv_heads + 2) * head_dim]
struct Heads {
  int64_t batch = 1, seq = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // keys that a query attends to at most, its own among them; 0: all before it

  int64_t group() const { return heads / kv_heads; }  // query heads of one key-value head
  int64_t qkv_width() const { return kv_heads * (group() + 2) * head_dim; }
  int64_t qk_width() const { return (heads + kv_heads) * head_dim; }  // without values
  int64_t out_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * 2 * head_dim; }  // keys and values on their own
  int64_t tokens() const { return batch * seq; }
  // Of `keys` keys up to a query's own, those that it attends to.
  int64_t in_window(int64_t keys) const { return window > 0 && window < keys ? window : keys; }
};

inline constexpr int64_t kMaxHeadDim =
    256;  // tiles of a wider head would not fit a thread's scratch

// Error(Usage) that names `op` unless all sizes are valid for ops on heads.
void check_heads(std::string_view op, const Heads& heads);

}  // namespace sextant

#include "ops/split_heads.h"

#include <algorithm>

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work

// f(token) over all tokens, each `width` elements of work.
template <class F>
void for_tokens(Stream& stream, int64_t tokens, int64_t width, F&& f) {
  stream.team().for_pieces(tokens, std::max<int64_t>(1, kElements / std::max<int64_t>(1, width)),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t token = begin; token < end; ++token) f(token);
                           });
}

// f(place in x, place in parts, columns) for every token and rank.
template <class F>
void for_parts(Stream& stream, const Tensor& parts, F&& f) {
  const int64_t ranks = parts.dim(0), tokens = parts.dim(1), width = parts.dim(2);
  for_tokens(stream, tokens, ranks * width, [&](int64_t token) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      f((token * ranks + rank) * width, (rank * tokens + token) * width, width);
  });
}

// Where the groups of a token lie before and after they are repeated.
struct Groups {
  int64_t queries, pair;  // elements of the queries of one copy; of a key and its value
  int64_t copies, kv_heads;

  Groups(const Heads& heads, int64_t repeats)
      : queries(heads.group() / repeats * heads.head_dim),
        pair(2 * heads.head_dim),
        copies(repeats),
        kv_heads(heads.kv_heads) {}
  int64_t width() const { return kv_heads * (copies * queries + pair); }
  int64_t repeated_width() const { return kv_heads * copies * (queries + pair); }
  int64_t at(int64_t kv_head) const { return kv_head * (copies * queries + pair); }
  int64_t repeated_at(int64_t kv_head, int64_t copy) const {
    return (kv_head * copies + copy) * (queries + pair);
  }
};

}  // namespace

void split_heads(Stream& stream, Tensor& parts, const Tensor& x) {
  with_float(x.dtype(), [&]<class T>(T) {
    for_parts(stream, parts, [&](int64_t whole, int64_t part, int64_t width) {
      std::copy_n(x.data<T>() + whole, width, parts.data<T>() + part);
    });
  });
}

void join_heads(Stream& stream, Tensor& x, const Tensor& parts) {
  with_float(x.dtype(), [&]<class T>(T) {
    for_parts(stream, parts, [&](int64_t whole, int64_t part, int64_t width) {
      std::copy_n(parts.data<T>() + part, width, x.data<T>() + whole);
    });
  });
}

void repeat_kv(Stream& stream, Tensor& out, const Tensor& qkv, const Heads& heads, int64_t copies) {
  const Groups g(heads, copies);
  with_float(qkv.dtype(), [&]<class T>(T) {
    for_tokens(stream, heads.tokens(), g.repeated_width(), [&](int64_t token) {
      for (int64_t head = 0; head < g.kv_heads; ++head)
        for (int64_t copy = 0; copy < copies; ++copy) {
          const T* from = qkv.data<T>() + token * g.width() + g.at(head);
          T* to = out.data<T>() + token * g.repeated_width() + g.repeated_at(head, copy);
          std::copy_n(from + copy * g.queries, g.queries, to);
          std::copy_n(from + copies * g.queries, g.pair, to + g.queries);
        }
    });
  });
}

void repeat_kv_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Heads& heads,
                        int64_t copies) {
  const Groups g(heads, copies);
  with_float(dqkv.dtype(), [&]<class T>(T) {
    for_tokens(stream, heads.tokens(), g.repeated_width(), [&](int64_t token) {
      for (int64_t head = 0; head < g.kv_heads; ++head) {
        const T* from = dout.data<T>() + token * g.repeated_width();
        T* to = dqkv.data<T>() + token * g.width() + g.at(head);
        for (int64_t copy = 0; copy < copies; ++copy)
          std::copy_n(from + g.repeated_at(head, copy), g.queries, to + copy * g.queries);
        for_packs<Compute<T>>(0, g.pair, [&](auto at) {
          VectorOf<T> sum = at(from + g.repeated_at(head, 0) + g.queries);
          for (int64_t copy = 1; copy < copies; ++copy)
            sum += at(from + g.repeated_at(head, copy) + g.queries);
          at.put(to + copies * g.queries, sum);
        });
      }
    });
  });
}

}  // namespace sextant::cpu

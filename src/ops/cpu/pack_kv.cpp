#include "ops/pack_kv.h"

#include <algorithm>
#include <cstring>

namespace sextant::cpu {
namespace {

constexpr int64_t kBytes = 65536;  // of one piece of work

// f(place in qkv, place in kv, bytes) for the key and value of every head of every token.
template <class F>
void for_pairs(Stream& stream, const Heads& heads, int64_t element, F&& f) {
  const int64_t dim = heads.head_dim * element, group = heads.group();
  const int64_t qkv_row = heads.qkv_width() * element, kv_row = heads.kv_width() * element;
  stream.team().for_pieces(heads.tokens(), std::max<int64_t>(1, kBytes / kv_row),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t token = begin; token < end; ++token)
                               for (int64_t head = 0; head < heads.kv_heads; ++head)
                                 f(token * qkv_row + (head * (group + 2) + group) * dim,
                                   token * kv_row + head * 2 * dim, static_cast<size_t>(2 * dim));
                           });
}

}  // namespace

void pack_kv(Stream& stream, Tensor& kv, const Tensor& qkv, const Heads& heads) {
  for_pairs(stream, heads, size_of(qkv.dtype()), [&](int64_t fused, int64_t apart, size_t bytes) {
    std::memcpy(kv.raw() + apart, qkv.raw() + fused, bytes);
  });
}

void unpack_kv(Stream& stream, Tensor& dqkv, const Tensor& dkv, const Heads& heads) {
  for_pairs(stream, heads, size_of(dkv.dtype()), [&](int64_t fused, int64_t apart, size_t bytes) {
    std::memcpy(dqkv.raw() + fused, dkv.raw() + apart, bytes);
  });
}

}  // namespace sextant::cpu

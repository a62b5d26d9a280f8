#include "ops/pack_kv.h"

#include "ops/cuda/copy_cells.h"

namespace sextant::cuda {
namespace {

// A row is a key-value head of a token, its columns are the units of its key and value. In the
// fused layout they follow the queries of the head.
struct Packed {
  int64_t fused, queries, pair;  // units of a head with queries, key and value, and of its parts
  __device__ Place operator()(int64_t row, int64_t column) const {
    return {row * pair + column, row * fused + queries + column};
  }
};
struct Unpacked {
  Packed packed;
  __device__ Place operator()(int64_t row, int64_t column) const {
    const Place place = packed(row, column);
    return {place.from, place.to};
  }
};

// Bytes of a unit.
int64_t unit_of_heads(const Tensor& kv, const Tensor& qkv, const Heads& heads) {
  return unit_of({heads.head_dim * size_of(qkv.dtype())}, {kv.raw(), qkv.raw()});
}

Packed describe(const Heads& heads, DType dtype, int64_t unit) {
  const int64_t head = heads.head_dim * size_of(dtype) / unit;
  return {(heads.group() + 2) * head, heads.group() * head, 2 * head};
}

}  // namespace

void pack_kv(Stream& stream, Tensor& kv, const Tensor& qkv, const Heads& heads) {
  const int64_t unit = unit_of_heads(kv, qkv, heads);
  const Packed places = describe(heads, qkv.dtype(), unit);
  copy_cells(stream, "pack_kv", kv.raw(), qkv.raw(), unit, heads.tokens() * heads.kv_heads,
             places.pair, places);
}

void unpack_kv(Stream& stream, Tensor& dqkv, const Tensor& dkv, const Heads& heads) {
  const int64_t unit = unit_of_heads(dkv, dqkv, heads);
  const Packed places = describe(heads, dqkv.dtype(), unit);
  copy_cells(stream, "unpack_kv", dqkv.raw(), dkv.raw(), unit, heads.tokens() * heads.kv_heads,
             places.pair, Unpacked{places});
}

}  // namespace sextant::cuda

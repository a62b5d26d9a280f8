#pragma once
#include "ops/attention.h"
#include "ops/random_fill.h"
#include "tensor/copy.h"

namespace sextant {

// The tensors of the tiled op, in their own arena.
struct TiledAttention {
  TiledAttention(const Heads& h, int threads)
      : heads(h), arena(Device{}, room(h, threads)), stream(arena, threads) {
    const auto make = [&](DType dtype, const Shape& shape) {
      return arena.allocate(Category::Activations, dtype, shape);
    };
    qkv = make(DType::F32, {h.tokens(), h.qkv_width()});
    dqkv = make(DType::F32, {h.tokens(), h.qkv_width()});
    out = make(DType::F32, {h.tokens(), h.out_width()});
    dout = make(DType::F32, {h.tokens(), h.out_width()});
    lse = make(DType::F32, {h.batch, h.heads, h.seq});
    starts = make(DType::I32, {h.batch, h.seq});
    fill_normal(stream, qkv, 1, "qkv", 1, 0);
    fill_normal(stream, dout, 1, "dout", 1, 0);
    fill_zero(stream, starts);
  }
  static constexpr int64_t kSlack = int64_t{1} << 20;  // of the arena, for rounding
  static int64_t room(const Heads& h, int threads) {
    return 2 * 4 * h.tokens() * (h.qkv_width() + h.out_width() + h.heads + 1) +
           Stream::scratch_bytes(threads) + kSlack;
  }
  void forward() { attention(stream, out, lse, qkv, starts, heads); }
  void backward() { attention_backward(stream, dqkv, dout, out, lse, qkv, starts, heads); }

  Heads heads;
  Arena arena;
  Stream stream;
  Tensor qkv, dqkv, out, dout, lse, starts;
};

}  // namespace sextant

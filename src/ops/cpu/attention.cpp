#include "ops/attention.h"

#include "ops/cpu/attention_backward.h"
#include "ops/cpu/attention_pieces.h"

namespace sextant::cpu {
namespace {

void check_starts(const Tensor& starts, const Heads& heads) {
  for (int64_t row = 0; row < heads.batch; ++row) {
    const int32_t* start = starts.data<int32_t>() + row * heads.seq;
    for (int64_t i = 0; i < heads.seq; ++i)
      SXT_CHECK(start[i] >= (i == 0 ? 0 : start[i - 1]) && start[i] <= i, Usage,
                "attention: token ", i, " of row ", row, " starts at ", start[i],
                ", must be between the start of the token before and ", i);
  }
}

template <class T>
void forward(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
             const Heads& heads) {
  for_queries(stream, heads, queries_per_piece(heads, stream.threads()),
              [&](int64_t row, int64_t head, int64_t begin, int64_t end, int thread) {
                HeadForward<T> h = head_of<T>(out, qkv, heads, row, head);
                h.lse = lse.data<T>() + (row * heads.heads + head) * heads.seq;
                h.visible.starts = starts.data<int32_t>() + row * heads.seq;
                attend(h, begin, end, stream.thread_scratch(thread));
              });
}

template <class T>
GroupBackward<T> group_of(Tensor& dqkv, const Tensor& dout, const Tensor& out, const Tensor& lse,
                          const Tensor& qkv, const Tensor& starts, const Heads& heads, int64_t row,
                          int64_t kv_head) {
  const int64_t dim = heads.head_dim, group = heads.group();
  const int64_t q = row * heads.seq * heads.qkv_width() + kv_head * (group + 2) * dim;
  const int64_t k = q + group * dim, v = k + dim;
  const int64_t o = row * heads.seq * heads.out_width() + kv_head * group * dim;
  const T* x = qkv.data<T>();
  T* dx = dqkv.data<T>();
  return {x + q,
          x + k,
          x + v,
          dx + q,
          dx + k,
          dx + v,
          out.data<T>() + o,
          dout.data<T>() + o,
          lse.data<T>() + (row * heads.heads + kv_head * group) * heads.seq,
          heads.qkv_width(),
          heads.out_width(),
          dim,
          group,
          heads.seq,
          Visible{starts.data<int32_t>() + row * heads.seq, 0}};
}

template <class T>
void backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
              const Tensor& lse, const Tensor& qkv, const Tensor& starts, const Heads& heads) {
  const auto group = [&](int64_t row, int64_t kv_head) {
    return group_of<T>(dqkv, dout, out, lse, qkv, starts, heads, row, kv_head);
  };
  const int64_t groups = heads.batch * heads.kv_heads, tiles = divide_up(heads.seq, kKeys);
  // A group on one thread takes five products a tile. Where groups are few, its tiles go to all
  // threads and the queries' gradients are a second pass: seven products, the same bits.
  const int64_t threads = stream.threads();
  if (5 * divide_up(groups, threads) * threads <= 7 * groups) {
    stream.team().for_pieces(groups, 1, [&](int64_t i, int64_t, int thread) {
      for (int64_t tile = 0; tile < tiles; ++tile)
        tile_of_keys_backward(group(i / heads.kv_heads, i % heads.kv_heads), tile * kKeys,
                              Gradients::Both, stream.thread_scratch(thread));
    });
    return;
  }
  stream.team().for_pieces(groups * tiles, 1, [&](int64_t piece, int64_t, int thread) {
    const int64_t i = piece % groups;
    tile_of_keys_backward(group(i / heads.kv_heads, i % heads.kv_heads), piece / groups * kKeys,
                          Gradients::KeysValues, stream.thread_scratch(thread));
  });
  const int64_t per_piece =
      divide_up(queries_per_piece(heads, stream.threads()), kQueries) * kQueries;
  for_queries(stream, heads, per_piece,
              [&](int64_t row, int64_t head, int64_t begin, int64_t end, int thread) {
                queries_backward(group(row, head / heads.group()), head % heads.group(), begin, end,
                                 stream.thread_scratch(thread));
              });
}

}  // namespace

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  check_starts(starts, heads);
  if (qkv.dtype() == DType::F64)
    forward<double>(stream, out, lse, qkv, starts, heads);
  else
    forward<float>(stream, out, lse, qkv, starts, heads);
}

void attention_backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, const Tensor& starts,
                        const Heads& heads) {
  check_starts(starts, heads);
  if (qkv.dtype() == DType::F64)
    backward<double>(stream, dqkv, dout, out, lse, qkv, starts, heads);
  else
    backward<float>(stream, dqkv, dout, out, lse, qkv, starts, heads);
}

}  // namespace sextant::cpu

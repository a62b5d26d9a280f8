#include "ops/attention.h"

#include "ops/cpu/attention_bounds.h"
#include "ops/cpu/attention_pieces.h"

namespace sextant::cpu {
namespace {

Bounds check_starts(Stream& stream, const Tensor& starts, const Heads& heads) {
  Bounds bounds(starts, heads.batch, heads.seq, [](int64_t token) { return token; });
  if (const std::optional<Bounds::Bad>& bad = bounds.bad())
    stream.report({Fault::Usage,
                   "attention",
                   "token % of row % starts at %, must be between the start of the token before "
                   "and %",
                   {bad->token, bad->row, bad->value, bad->token}});
  return bounds;
}

template <class T>
void forward(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Bounds& starts,
             const Heads& heads) {
  for_queries(stream, heads, queries_per_piece(heads, stream.threads()),
              [&](int64_t row, int64_t head, int64_t begin, int64_t end, int thread) {
                HeadForward<T> h = head_of<T>(out, qkv, heads, row, head);
                h.lse = lse.data<Compute<T>>() + (row * heads.heads + head) * heads.seq;
                h.visible.begins = starts.row(row);
                h.visible.window = heads.window;
                attend(h, begin, end, stream.thread_scratch(thread));
              });
}

template <class T>
void backward(Stream& stream, Tensor& dqkv, const Tensor& dout, const Tensor& out,
              const Tensor& lse, const Tensor& qkv, const Bounds& starts, const Heads& heads) {
  backward_groups(stream, heads, heads.seq, kIsNarrow<T>, [&](int64_t row, int64_t kv_head) {
    GroupBackward<T> g = queries_of_group<T>(dqkv, dout, lse, qkv, heads, row, kv_head);
    g.out = out.data<T>() + (g.dout - dout.data<T>());
    g.k = g.q + heads.group() * heads.head_dim;
    g.v = g.k + heads.head_dim;
    g.dk = g.dq + heads.group() * heads.head_dim;
    g.dv = g.dk + heads.head_dim;
    g.kv_stride = heads.qkv_width();
    g.kv_seq = heads.seq;
    g.visible.begins = starts.row(row);
    g.visible.window = heads.window;
    return g;
  });
}

}  // namespace

void attention(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& starts,
               const Heads& heads) {
  const Bounds bounds = check_starts(stream, starts, heads);
  with_float(qkv.dtype(), [&]<class T>(T) { forward<T>(stream, out, lse, qkv, bounds, heads); });
}

void attention_backward_in(Stream& stream, Tensor& dqkv, Tensor&, const Tensor& dout,
                           const Tensor& out, const Tensor& lse, const Tensor& qkv,
                           const Tensor& starts, const Heads& heads) {
  const Bounds bounds = check_starts(stream, starts, heads);
  with_float(qkv.dtype(),
             [&]<class T>(T) { backward<T>(stream, dqkv, dout, out, lse, qkv, bounds, heads); });
}

}  // namespace sextant::cpu

#include "ops/attention_ranges.h"

#include "ops/cpu/attention_bounds.h"
#include "ops/cpu/attention_pieces.h"

namespace sextant::cpu {
namespace {

static_assert(kKeysTogether == kKeys);

constexpr int64_t kElements = 16384;  // of one piece of work that goes over tokens

// The ranges of all queries. Bounds that are bad are reported.
struct Ranges {
  Ranges(Stream& stream, const char* op, const Tensor& begin, const Tensor& end, const Heads& heads,
         int64_t kv_seq)
      : begin(begin, heads.batch, heads.seq, [=](int64_t) { return kv_seq; }),
        end(end, heads.batch, heads.seq, [=](int64_t) { return kv_seq; }) {
    const auto report = [&](const char* text, const std::optional<Bounds::Bad>& bad) {
      if (bad)
        stream.report(
            {Fault::Usage, op, text, {bad->token, bad->row, bad->value, bad->least, kv_seq}});
    };
    report("begin of token % of row % is %, must be between % and %", this->begin.bad());
    report("end of token % of row % is %, must be between % and %", this->end.bad());
  }
  Visible of(int64_t row) const { return {begin.row(row), end.row(row)}; }

  Bounds begin, end;
};

// Where the key of a head of a row lies; its value follows.
int64_t key_at(const Heads& heads, int64_t kv_seq, int64_t row, int64_t kv_head) {
  return row * kv_seq * heads.kv_width() + kv_head * 2 * heads.head_dim;
}

// f(token, head, place of its lse) over all rows of out; pieces are whole tokens.
template <class F>
void for_heads(Stream& stream, int64_t batch, int64_t heads, int64_t seq, int64_t head_dim, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kElements / (heads * head_dim));
  stream.team().for_pieces(batch * seq, grain, [&](int64_t first, int64_t last, int) {
    for (int64_t token = first; token < last; ++token)
      for (int64_t head = 0; head < heads; ++head)
        f(token, head, (token / seq * heads + head) * seq + token % seq);
  });
}

// One head of one token; the weights of two that saw something add up to 1.
template <class O, class T, class F = Compute<T>>
void merge_head(O* out, F& lse, const T* out_b, F lse_b, int64_t head_dim) {
  constexpr F kNothing = -std::numeric_limits<F>::infinity();
  if (lse_b == kNothing) return;
  if (lse == kNothing) {
    for_packs<F>(0, head_dim, [&](auto at) { at.put(out, at(out_b)); });
    lse = lse_b;
    return;
  }
  const F both = std::max(lse, lse_b) + std::log1p(std::exp(-std::abs(lse - lse_b)));
  const F a = std::exp(lse - both), b = std::exp(lse_b - both);
  for_packs<F>(0, head_dim,
               [&](auto at) { at.put(out, at(static_cast<const O*>(out)) * a + at(out_b) * b); });
  lse = both;
}

}  // namespace

void attention_ranges(Stream& stream, Tensor& out, Tensor& lse, const Tensor& qkv, const Tensor& kv,
                      const Tensor& begin, const Tensor& end, const Heads& heads, int64_t kv_seq) {
  const Ranges ranges(stream, "attention_ranges", begin, end, heads, kv_seq);
  with_result(qkv.dtype(), out.dtype(), [&]<class T, class O>(T, O) {
    for_queries(stream, heads, queries_per_piece(heads, stream.threads()),
                [&](int64_t row, int64_t head, int64_t first, int64_t last, int thread) {
                  HeadForward<T, O> h = head_of<T, O>(out, qkv, heads, row, head);
                  h.k = kv.data<T>() + key_at(heads, kv_seq, row, head / heads.group());
                  h.v = h.k + heads.head_dim;
                  h.kv_stride = heads.kv_width();
                  h.lse = lse.data<Compute<T>>() + (row * heads.heads + head) * heads.seq;
                  h.visible = ranges.of(row);
                  attend(h, first, last, stream.thread_scratch(thread));
                });
  });
}

void attention_ranges_backward(Stream& stream, Tensor& dqkv, Tensor& dkv, const Tensor& dout,
                               const Tensor& delta, const Tensor& lse, const Tensor& qkv,
                               const Tensor& kv, const Tensor& begin, const Tensor& end,
                               const Heads& heads, int64_t kv_seq, Write write_dq,
                               Write write_dkv) {
  const Ranges ranges(stream, "attention_ranges_backward", begin, end, heads, kv_seq);
  with_result(qkv.dtype(), dqkv.dtype(), [&]<class T, class G>(T, G) {
    backward_groups(stream, heads, kv_seq, kIsNarrow<G>, [&](int64_t row, int64_t kv_head) {
      GroupBackward<T, G> g = queries_of_group<T, G>(dqkv, dout, lse, qkv, heads, row, kv_head);
      const int64_t key = key_at(heads, kv_seq, row, kv_head);
      g.delta = delta.data<Compute<T>>() + (g.lse - lse.data<Compute<T>>());
      g.k = kv.data<T>() + key;
      g.v = g.k + heads.head_dim;
      g.dk = dkv.data<G>() + key;
      g.dv = g.dk + heads.head_dim;
      g.kv_stride = heads.kv_width();
      g.kv_seq = kv_seq;
      g.visible = ranges.of(row);
      g.write_dq = write_dq;
      g.write_dkv = write_dkv;
      return g;
    });
  });
}

void attention_delta(Stream& stream, Tensor& delta, const Tensor& dout, const Tensor& out,
                     const Heads& heads) {
  with_result(dout.dtype(), out.dtype(), [&]<class T, class O>(T, O) {
    const T* a = dout.data<T>();
    const O* b = out.data<O>();
    Compute<T>* to = delta.data<Compute<T>>();
    for_heads(stream, heads.batch, heads.heads, heads.seq, heads.head_dim,
              [&](int64_t token, int64_t head, int64_t place) {
                const int64_t at = token * heads.out_width() + head * heads.head_dim;
                to[place] = dot(a + at, b + at, heads.head_dim);
              });
  });
}

void attention_merge(Stream& stream, Tensor& out, Tensor& lse, const Tensor& out_b,
                     const Tensor& lse_b) {
  const int64_t batch = lse.dim(0), heads = lse.dim(1), seq = lse.dim(2), width = out.dim(1);
  if (out.elements() == 0) return;
  with_result(out_b.dtype(), out.dtype(), [&]<class T, class O>(T, O) {
    O* to = out.data<O>();
    const T* from = out_b.data<T>();
    Compute<T>* to_lse = lse.data<Compute<T>>();
    const Compute<T>* from_lse = lse_b.data<Compute<T>>();
    const int64_t dim = width / heads;
    for_heads(stream, batch, heads, seq, dim, [&](int64_t token, int64_t head, int64_t place) {
      const int64_t at = token * width + head * dim;
      merge_head(to + at, to_lse[place], from + at, from_lse[place], dim);
    });
  });
}

}  // namespace sextant::cpu

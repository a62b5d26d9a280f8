#include "model/context_attention.h"

#include <utility>

#include "ops/add.h"
#include "ops/attention_ranges.h"
#include "ops/pack_kv.h"

namespace sextant {
namespace {

Tensor keys_and_values(Stream& stream, const Tensor& qkv, const Heads& heads) {
  Tensor kv = allocate_activation(stream, qkv, {heads.tokens(), heads.kv_width()});
  pack_kv(stream, kv, qkv, heads);
  return kv;
}

Tensor delta_of(Stream& stream, const Tensor& dout, const AttentionCore::Slots& saved,
                const Heads& heads) {
  Tensor delta = allocate_activation(stream, saved.lse, saved.lse.shape());
  attention_delta(stream, delta, dout, saved.out, heads);
  return delta;
}

// Key ranges for one part of the keys: [batch, queries].
Tensor ranges_of(const Tensor& ranges, int64_t part) {
  return ranges.slice(part, part + 1).view({ranges.dim(1), ranges.dim(2)});
}

// Keys and values on their way around the ring: the current ones are used and sent to the next
// group while those of the previous group arrive.
class RingTensor {
 public:
  RingTensor(Stream& stream, const ContextRanks& ranks, Tensor own)
      : stream_(stream), ranks_(ranks), current_(std::move(own)) {}

  const Tensor& current() const { return current_; }
  void start_exchange() {
    next_ = allocate_activation(stream_, current_, current_.shape());
    sending_ = ranks_.ring().send(stream_, current_, When::Later);
    receiving_ = ranks_.ring().receive(stream_, next_, When::Later);
  }
  void finish_exchange() {
    receiving_.wait();
    sending_.wait();
    Tensor arrived = std::exchange(next_, Tensor());
    if (!ranks_.is_injected(InjectionKind::StuckRing)) current_ = std::move(arrived);
  }

 private:
  Stream& stream_;
  const ContextRanks& ranks_;
  Tensor current_, next_;
  Pending sending_, receiving_;
};

}  // namespace

void ring_attention(Stream& stream, const Micro& micro, const Heads& heads,
                    const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse) {
  const int ring = ranks.part().ring();
  RingTensor kv(stream, ranks, keys_and_values(stream, qkv, heads));
  for (int step = 0; step < ring; ++step) {
    const bool is_last = step == ring - 1;
    if (!is_last) kv.start_exchange();
    const Tensor begin = ranges_of(micro.key_begin, step), end = ranges_of(micro.key_end, step);
    if (step == 0) {
      attention_ranges(stream, out, lse, qkv, kv.current(), begin, end, heads, heads.seq);
    } else {
      Tensor more = allocate_activation(stream, out, out.shape());
      Tensor more_lse = allocate_activation(stream, lse, lse.shape());
      attention_ranges(stream, more, more_lse, qkv, kv.current(), begin, end, heads, heads.seq);
      if (!is_last || !ranks.is_injected(InjectionKind::SkipMerge))
        attention_merge(stream, out, lse, more, more_lse);
    }
    if (!is_last) kv.finish_exchange();
  }
}

Tensor ring_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                               const ContextRanks& ranks, Tensor dout,
                               const AttentionCore::Slots& saved) {
  const int ring = ranks.part().ring();
  const Tensor delta = delta_of(stream, dout, saved, heads);
  Tensor dqkv = allocate_activation(stream, saved.qkv, saved.qkv.shape());
  RingTensor kv(stream, ranks, keys_and_values(stream, saved.qkv, heads));
  Pending sending;
  for (int step = 0; step < ring; ++step) {
    const bool is_first = step == 0, is_last = step == ring - 1;
    if (!is_last) kv.start_exchange();
    Tensor received;  // partial sum of the ranks before this one, for these keys
    Pending receiving;
    if (!is_first) {
      received = allocate_activation(stream, kv.current(), kv.current().shape());
      receiving = ranks.gradient_ring().receive(stream, received, When::Later);
    }
    Tensor dkv = allocate_activation(stream, kv.current(), kv.current().shape());
    attention_ranges_backward(stream, dqkv, dkv, dout, delta, saved.lse, saved.qkv, kv.current(),
                              ranges_of(micro.key_begin, step), ranges_of(micro.key_end, step),
                              heads, heads.seq, is_first ? Write::Replace : Write::Chain,
                              Write::Replace);
    if (!is_first) {
      receiving.wait();
      if (!ranks.is_injected(InjectionKind::LostRingGradient)) add(stream, dkv, received, dkv);
    }
    if (!is_last) kv.finish_exchange();
    sending.wait();
    sending = ranks.gradient_ring().send(stream, dkv, When::Later);
  }
  Tensor dkv = allocate_activation(stream, kv.current(), kv.current().shape());
  ranks.gradient_ring().receive(stream, dkv, When::Now);
  sending.wait();
  unpack_kv(stream, dqkv, dkv, heads);
  return dqkv;
}

void all_gather_attention(Stream& stream, const Micro& micro, const Heads& heads,
                          const ContextRanks& ranks, const Tensor& qkv, Tensor& out, Tensor& lse) {
  const Tensor kv = ranks.all_gather(stream, keys_and_values(stream, qkv, heads), heads.batch);
  attention_ranges(stream, out, lse, qkv, kv, ranges_of(micro.key_begin, 0),
                   ranges_of(micro.key_end, 0), heads, kv.dim(0) / heads.batch);
}

Tensor all_gather_attention_backward(Stream& stream, const Micro& micro, const Heads& heads,
                                     const ContextRanks& ranks, Tensor dout,
                                     const AttentionCore::Slots& saved) {
  Tensor kv = ranks.all_gather(stream, keys_and_values(stream, saved.qkv, heads), heads.batch);
  Tensor delta = delta_of(stream, dout, saved, heads);
  Tensor dqkv = allocate_activation(stream, saved.qkv, saved.qkv.shape());
  Tensor dkv = allocate_activation(stream, kv, kv.shape());
  attention_ranges_backward(stream, dqkv, dkv, dout, delta, saved.lse, saved.qkv, kv,
                            ranges_of(micro.key_begin, 0), ranges_of(micro.key_end, 0), heads,
                            kv.dim(0) / heads.batch, Write::Replace, Write::Replace);
  kv = delta = dout = Tensor();
  unpack_kv(stream, dqkv, ranks.reduce_scatter(stream, std::move(dkv), heads.batch), heads);
  return dqkv;
}

}  // namespace sextant

#include "bench/context_messages.h"

#include <algorithm>
#include <utility>

#include "tensor/copy.h"

namespace sextant {
namespace {

Tensor zeros(Stream& stream, int64_t elements) {
  Tensor made = stream.arena().allocate(Category::Communication, DType::F32, {elements});
  fill_zero(stream, made);  // sums of zeros stay zero; also touches the pages
  return made;
}

}  // namespace

ContextMessages::ContextMessages(Stream& stream, Communicator& world, const ContextRanks& ranks,
                                 const Heads& heads)
    : world_(world), ranks_(ranks) {
  const ContextPart& part = ranks.part();
  const int64_t kv_heads = heads.kv_heads * kv_copies(part, heads.kv_heads);
  const int64_t kv = heads.tokens() * 2 * kv_heads * heads.head_dim;
  out_ = heads.tokens() * heads.out_width();
  qkv_ = out_ + kv;
  if (part.ulysses > 1) {
    group_ = world.subgroup(
        ranks_where(world.size(), [&](int rank) { return rank / part.ulysses == part.group(); }),
        "ulysses messages");
    mine_ = zeros(stream, qkv_);
    received_ = zeros(stream, qkv_);
  }
  if (part.uses_all_gather) {
    kv_ = zeros(stream, kv);
    whole_ = zeros(stream, kv * part.degree);
  } else if (part.ring() > 1) {
    // All tokens of the group, but only this rank's heads: as much as without a group.
    for (Tensor* tensor : {&kv_, &next_, &dkv_, &others_}) *tensor = zeros(stream, kv);
  }
}

void ContextMessages::forward(Stream& stream) {
  exchange(stream, qkv_);
  if (ranks_.part().uses_all_gather)
    gather(stream);
  else
    pass_keys(stream);
  exchange(stream, out_);
}

void ContextMessages::backward(Stream& stream) {
  exchange(stream, out_);
  if (ranks_.part().uses_all_gather) {
    gather(stream);
    world_.reduce_scatter(stream, kv_, whole_, ReduceOp::Sum);
  } else {
    pass_keys_and_gradients(stream);
  }
  exchange(stream, qkv_);
}

void ContextMessages::exchange(Stream& stream, int64_t elements) {
  if (!group_) return;
  Tensor received = received_.slice(0, elements);
  group_->all_to_all(stream, received, mine_.slice(0, elements));
}

void ContextMessages::gather(Stream& stream) {
  world_.all_gather(stream, whole_, kv_);
}

void ContextMessages::pass_keys(Stream& stream) {
  for (int step = 1; step < ranks_.part().ring(); ++step) {
    Pending sending = ranks_.ring().send(stream, kv_, When::Later);
    Pending receiving = ranks_.ring().receive(stream, next_, When::Later);
    receiving.wait();
    sending.wait();
    std::swap(kv_, next_);
  }
}

// Gradients are one step behind the keys, and make one hop more.
void ContextMessages::pass_keys_and_gradients(Stream& stream) {
  const int ring = ranks_.part().ring();
  if (ring == 1) return;
  Pending sending_gradients;
  for (int step = 0; step < ring; ++step) {
    Pending sending, receiving;
    if (step < ring - 1) {
      sending = ranks_.ring().send(stream, kv_, When::Later);
      receiving = ranks_.ring().receive(stream, next_, When::Later);
    }
    if (step > 0) ranks_.gradient_ring().receive(stream, others_, When::Later).wait();
    receiving.wait();
    sending.wait();
    std::swap(kv_, next_);
    sending_gradients.wait();
    std::swap(dkv_, others_);
    sending_gradients = ranks_.gradient_ring().send(stream, dkv_, When::Later);
  }
  ranks_.gradient_ring().receive(stream, others_, When::Now);
  sending_gradients.wait();
}

}  // namespace sextant

#include "model/latent_attention.h"

#include <utility>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rmsnorm.h"

namespace sextant {
namespace {

constexpr double kLatentEps = 1e-6;  // of the norms of latents, in every published model

void add_weight_gradient(Stream& stream, Param& param, const Tensor& dy, const Tensor& x) {
  Tensor none;
  linear_backward_weight(stream, param.grad, none, dy, x, param.next_write());
}

}  // namespace

LatentAttention::LatentAttention(const LatentAttentionParts& parts, const LatentHeads& heads,
                                 const RopeTable& rope, size_t index)
    : parts_(parts),
      core_(*parts.context, parts.norm.statistics, parts.norm.watch, parts.kv_b.weight->name),
      heads_(heads),
      rope_(rope),
      index_(index) {}

std::vector<Param*> LatentAttention::params() {
  std::vector<Param*> params;
  for (Param* param :
       {parts_.norm.weight, parts_.q_a, parts_.q_norm, parts_.q_b.weight, parts_.kv_a,
        parts_.kv_norm, parts_.k_rope, parts_.kv_b.weight, parts_.out.weight})
    if (param != nullptr) params.push_back(param);
  return params;
}

Heads LatentAttention::core_heads(const Micro& micro) const {
  return {micro.batch, micro.seq, heads_.heads, heads_.heads, heads_.head_dim()};
}

LatentHeads LatentAttention::heads_for(const Micro& micro) const {
  LatentHeads heads = heads_;
  heads.tokens = micro.size();
  return heads;
}

void LatentAttention::make(Stream& stream, const Tensor& normed, Latent latent) const {
  const Shape shape{normed.rows(), latent.down->value.dim(0)};
  latent.value = allocate_activation(stream, normed, shape);
  linear(stream, latent.value, normed, latent.down->value, {});
  latent.inverse = allocate_activation(stream, parts_.norm.statistics, {normed.rows()});
  latent.normed = allocate_activation(stream, normed, shape);
  rmsnorm(stream, latent.normed, latent.inverse, latent.value, {}, latent.norm->value, kLatentEps);
}

// Fills the slots from QLatent to Qkv.
void LatentAttention::project(Stream& stream, const Micro& micro, Saved& saved) const {
  const Tensor& normed = saved[Slot::Normed];
  if (parts_.q_a != nullptr)
    make(stream, normed, queries(saved));
  else
    saved[Slot::QNormed] = normed;
  const Tensor q = parts_.q_b.forward_column(stream, operand(saved, Slot::QNormed), *parts_.ranks);
  make(stream, normed, keys(saved));
  const Tensor kv =
      parts_.kv_b.forward_column(stream, operand(saved, Slot::KvNormed), *parts_.ranks);
  Tensor own = allocate_activation(stream, normed, {normed.rows(), heads_.rope});
  linear(stream, own, normed, parts_.k_rope->value, {});
  const Tensor k_rope = parts_.ranks->enter(stream, own);
  const LatentHeads heads = heads_for(micro);
  saved[Slot::Qkv] =
      allocate_activation(stream, q, {heads.tokens, heads.heads * 3 * heads.head_dim()});
  join_latent_heads(stream, saved[Slot::Qkv], q, kv, k_rope, micro.positions, rope_.cos, rope_.sin,
                    heads);
}

Tensor LatentAttention::values_of(Stream& stream, const Micro& micro,
                                  const Tensor& attended) const {
  const LatentHeads heads = heads_for(micro);
  Tensor values = allocate_activation(stream, attended, {heads.tokens, heads.heads * heads.value});
  take_values(stream, values, attended, heads);
  return values;
}

Hidden LatentAttention::forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  project(stream, micro, saved);
  const Heads heads = core_heads(micro);
  Tensor attended;
  if (micro.cache != nullptr) {
    attended = allocate_activation(stream, saved[Slot::Qkv], {micro.size(), heads.out_width()});
    attention_cached(stream, attended, micro.cache->keys[index_], micro.cache->values[index_],
                     saved[Slot::Qkv], micro.cache->past, heads);
  } else {
    attended = core_.forward(stream, micro, heads, core_slots(saved));
  }
  saved[Slot::Attended] = values_of(stream, micro, attended);
  attended = Tensor();
  Tensor update = parts_.out.forward_row(stream, operand(saved, Slot::Attended), *parts_.ranks);
  parts_.dropout.forward(stream, micro, *parts_.ranks, update);
  return {std::move(x.residual), std::move(update)};
}

void LatentAttention::discard_activations(Keep keep, Saved& saved) {
  SXT_CHECK(keep != Keep::Nothing, Internal, "attention is recomputed from its input");
  if (keep == Keep::Input) saved.clear_but(Slot::X);
  if (keep == Keep::Products) {
    saved[Slot::Normed] = Tensor();
    if (parts_.q_a == nullptr) saved[Slot::QNormed] = Tensor();
  }
  if (keep == Keep::Outside) saved[Slot::Lse] = saved[Slot::Out] = saved[Slot::Attended] = Tensor();
}

Hidden LatentAttention::recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x,
                                  Saved& saved) {
  if (keep == Keep::Input) return forward(stream, micro, {saved[Slot::X]}, saved);
  if (keep == Keep::Products) {
    saved[Slot::Normed] = parts_.norm.recompute(stream, norm_slots(saved));
    if (parts_.q_a != nullptr) return x;
    saved[Slot::QNormed] = saved[Slot::Normed];
    parts_.q_b.requantize(stream, operand(saved, Slot::QNormed));
    return x;
  }
  saved[Slot::Attended] = values_of(
      stream, micro, core_.recompute(stream, micro, core_heads(micro), core_slots(saved)));
  parts_.out.requantize(stream, operand(saved, Slot::Attended));
  return x;
}

// Afterwards latent.value holds its own gradient.
void LatentAttention::backward(Stream& stream, const Tensor& dnormed_latent, Latent latent) const {
  if (parts_.norm.watch != nullptr)
    parts_.norm.watch->read(stream, latent.norm->name, latent.inverse);
  Tensor dlatent = allocate_activation(stream, latent.value, latent.value.shape());
  rmsnorm_backward(stream, dlatent, latent.norm->grad, dnormed_latent, latent.value, latent.inverse,
                   latent.norm->value, {}, latent.norm->next_write());
  latent.value = std::move(dlatent);
  latent.inverse = Tensor();
}

// The gradient of the normed hidden state.
Tensor LatentAttention::project_backward(Stream& stream, const Micro& micro, const Tensor& dqkv,
                                         Saved& saved) const {
  const LatentHeads heads = heads_for(micro);
  Tensor& dq = saved[Slot::Qkv];
  Tensor& dkv = saved[Slot::Lse];
  dq = allocate_activation(stream, dqkv, {heads.tokens, heads.heads * heads.head_dim()});
  dkv = allocate_activation(stream, dqkv, {heads.tokens, heads.heads * heads.kv()});
  Tensor dk_rope = allocate_activation(stream, dqkv, {heads.tokens, heads.rope});
  join_latent_heads_backward(stream, dq, dkv, dk_rope, dqkv, micro.positions, rope_.cos, rope_.sin,
                             heads);
  saved[Slot::Out] = parts_.ranks->leave(stream, dk_rope);
  Tensor dnormed =
      parts_.q_b.backward_input_column(stream, operand(saved, Slot::Qkv), *parts_.ranks);
  if (parts_.q_a != nullptr) {
    backward(stream, dnormed, queries(saved));
    dnormed = allocate_activation(stream, saved[Slot::Normed], saved[Slot::Normed].shape());
    linear_backward_input(stream, dnormed, saved[Slot::QLatent], parts_.q_a->value, {});
  }
  backward(stream,
           parts_.kv_b.backward_input_column(stream, operand(saved, Slot::Lse), *parts_.ranks),
           keys(saved));
  linear_backward_input(stream, dnormed, saved[Slot::KvLatent], parts_.kv_a->value,
                        {.write = Write::Add});
  linear_backward_input(stream, dnormed, saved[Slot::Out], parts_.k_rope->value,
                        {.write = Write::Add});
  return dnormed;
}

Tensor LatentAttention::backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                       Saved& saved) {
  const LatentHeads heads = heads_for(micro);
  Tensor dattended;
  {
    const Tensor dvalues = parts_.out.backward_input_row(
        stream, operand(saved, Slot::Dy), parts_.dropout.backward(stream, micro, *parts_.ranks, dy),
        *parts_.ranks);
    dattended =
        allocate_activation(stream, dvalues, {heads.tokens, heads.heads * heads.head_dim()});
    fill_values(stream, dattended, dvalues, heads);
  }
  const Tensor dqkv =
      core_.backward(stream, micro, core_heads(micro), std::move(dattended), core_slots(saved));
  const Tensor dnormed = project_backward(stream, micro, dqkv, saved);
  return parts_.norm.backward(stream, dnormed, dy, norm_slots(saved));
}

void LatentAttention::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  const Tensor& normed = saved[Slot::Normed];
  parts_.out.backward_weight(stream, operand(saved, Slot::Dy), operand(saved, Slot::Attended));
  parts_.q_b.backward_weight_column(stream, operand(saved, Slot::Qkv),
                                    operand(saved, Slot::QNormed), *parts_.ranks);
  if (parts_.q_a != nullptr) add_weight_gradient(stream, *parts_.q_a, saved[Slot::QLatent], normed);
  parts_.kv_b.backward_weight_column(stream, operand(saved, Slot::Lse),
                                     operand(saved, Slot::KvNormed), *parts_.ranks);
  add_weight_gradient(stream, *parts_.kv_a, saved[Slot::KvLatent], normed);
  add_weight_gradient(stream, *parts_.k_rope, saved[Slot::Out], normed);
  saved.clear();
}

}  // namespace sextant

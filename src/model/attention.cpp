#include "model/attention.h"

#include <utility>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/head_norm.h"
#include "ops/rope.h"

namespace sextant {

Attention::Attention(const AttentionParts& parts, const Heads& heads, const RopeTable& rope,
                     size_t index)
    : parts_(parts),
      core_(*parts.context, parts.norm.statistics, parts.norm.watch, parts.qkv.weight->name),
      heads_(heads),
      rope_(rope),
      index_(index) {}

std::vector<Param*> Attention::params() {
  std::vector<Param*> params;
  for (Param* param : {parts_.norm.weight, parts_.norm.bias, parts_.qkv.weight, parts_.qkv.bias,
                       parts_.q_norm, parts_.k_norm, parts_.out.weight, parts_.out.bias})
    if (param != nullptr) params.push_back(param);
  return params;
}

Heads Attention::heads_for(const Micro& micro) const {
  Heads heads = heads_;
  heads.batch = micro.batch;
  heads.seq = micro.seq;
  return heads;
}

// Fills Slot::Qkv; queries and keys are normed per head and rotated.
void Attention::project(Stream& stream, const Micro& micro, Saved& saved) const {
  const Heads heads = heads_for(micro);
  Tensor qkv = parts_.qkv.forward_column(stream, operand(saved, Slot::Normed), *parts_.ranks);
  if (parts_.q_norm != nullptr) {
    saved[Slot::RawQkv] = qkv;
    saved[Slot::HeadInverse] = allocate_activation(
        stream, parts_.norm.statistics, {micro.size(), heads.kv_heads * (heads.group() + 1)});
    qkv = allocate_activation(stream, qkv, qkv.shape());
    head_norm(stream, qkv, saved[Slot::HeadInverse], saved[Slot::RawQkv], parts_.q_norm->value,
              parts_.k_norm->value, heads, parts_.norm.eps);
  }
  if (rope_.cos)
    rope(stream, qkv, micro.positions, rope_.cos, rope_.sin, heads, RopeDirection::Forward);
  saved[Slot::Qkv] = qkv;
}

Hidden Attention::forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  Hidden y = run(stream, micro, std::move(x), saved);
  parts_.dropout.forward(stream, micro, *parts_.ranks, y.update);
  return y;
}

// Without dropout.
Hidden Attention::run(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  const Heads heads = heads_for(micro);
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  project(stream, micro, saved);
  Tensor& attended = saved[Slot::Attended];
  if (micro.cache != nullptr) {
    attended = allocate_activation(stream, saved[Slot::Qkv], {micro.size(), heads.out_width()});
    attention_cached(stream, attended, micro.cache->keys[index_], micro.cache->values[index_],
                     saved[Slot::Qkv], micro.cache->past, heads);
  } else {
    attended = core_.forward(stream, micro, heads, core_slots(saved));
  }
  const bool is_same = attended.raw() == saved[Slot::Out].raw();
  OperandSlots slots = operand(saved, Slot::Attended);
  if (is_same) slots.kept = OperandSlots::Kept::No;
  Tensor update = parts_.out.forward_row(stream, slots, *parts_.ranks);
  if (is_same && parts_.out.fp8 != nullptr) attended = Tensor();
  return {std::move(x.residual), std::move(update)};
}

void Attention::discard_activations(Keep keep, Saved& saved) {
  SXT_CHECK(keep != Keep::Nothing, Internal, "attention is recomputed from its input");
  if (keep == Keep::Input) saved.clear_but(Slot::X);
  if (keep == Keep::Products) saved[Slot::Normed] = Tensor();
  if (keep == Keep::Outside) saved[Slot::Lse] = saved[Slot::Out] = saved[Slot::Attended] = Tensor();
}

Hidden Attention::recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) {
  if (keep == Keep::Input) {
    Hidden y = run(stream, micro, {saved[Slot::X]}, saved);
    parts_.dropout.replay(stream, micro, *parts_.ranks, y.update);
    return y;
  }
  if (keep == Keep::Products) {
    saved[Slot::Normed] = parts_.norm.recompute(stream, norm_slots(saved));
    parts_.qkv.requantize(stream, operand(saved, Slot::Normed));
    return x;
  }
  saved[Slot::Attended] = core_.recompute(stream, micro, heads_for(micro), core_slots(saved));
  if (parts_.out.fp8 != nullptr) restore_attended(stream, saved);
  return x;
}

// In fp8 the attention output is kept once, unquantised, where the core's backward reads the same
// tensor; its quantised form is made again from that, for the weight gradient.
void Attention::restore_attended(Stream& stream, Saved& saved) const {
  if (!saved[Slot::Attended]) saved[Slot::Attended] = saved[Slot::Out];
  if (!is_fp8(saved[Slot::Attended].dtype()))
    parts_.out.requantize(stream, operand(saved, Slot::Attended));
}

Tensor Attention::backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                 Saved& saved) {
  const Heads heads = heads_for(micro);
  if (parts_.out.fp8 != nullptr) restore_attended(stream, saved);
  Tensor dqkv =
      core_.backward(stream, micro, heads,
                     parts_.out.backward_input_row(
                         stream, gradient(saved, Slot::Dy),
                         parts_.dropout.backward(stream, micro, *parts_.ranks, dy), *parts_.ranks),
                     core_slots(saved));
  if (rope_.cos)
    rope(stream, dqkv, micro.positions, rope_.cos, rope_.sin, heads, RopeDirection::Backward);
  if (parts_.q_norm != nullptr) {
    if (parts_.norm.watch != nullptr)
      parts_.norm.watch->read(stream, parts_.q_norm->name, saved[Slot::HeadInverse]);
    parts_.k_norm->next_write();  // advances with q_norm: one call writes both
    head_norm_backward(stream, dqkv, parts_.q_norm->grad, parts_.k_norm->grad, dqkv,
                       saved[Slot::RawQkv], saved[Slot::HeadInverse], parts_.q_norm->value,
                       parts_.k_norm->value, heads, parts_.q_norm->next_write());
    saved[Slot::RawQkv] = saved[Slot::HeadInverse] = Tensor();
  }
  saved[Slot::Qkv] = std::move(dqkv);  // from here on the gradient
  const Tensor dnormed =
      parts_.qkv.backward_input_column(stream, gradient(saved, Slot::Qkv), *parts_.ranks);
  return parts_.norm.backward(stream, dnormed, dy, norm_slots(saved));
}

void Attention::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  parts_.out.backward_weight(stream, gradient(saved, Slot::Dy), operand(saved, Slot::Attended));
  parts_.qkv.backward_weight_column(stream, gradient(saved, Slot::Qkv),
                                    operand(saved, Slot::Normed), *parts_.ranks);
  saved.clear();
}

}  // namespace sextant

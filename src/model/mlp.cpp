#include "model/mlp.h"

#include <utility>

#include "base/error.h"
#include "ops/swiglu.h"

namespace sextant {

Mlp::Mlp(const MlpParts& parts) : parts_(parts) {}

std::vector<Param*> Mlp::params() {
  std::vector<Param*> params;
  for (Param* param : {parts_.norm.weight, parts_.norm.bias, parts_.up.weight, parts_.up.bias,
                       parts_.down.weight, parts_.down.bias})
    if (param != nullptr) params.push_back(param);
  return params;
}

void Mlp::gate(Stream& stream, const Micro& micro, Saved& saved) const {
  saved[Slot::Active] =
      allocate_activation(stream, saved[Slot::Wide], {micro.size(), parts_.down.in()});
  swiglu(stream, saved[Slot::Active], saved[Slot::Wide]);
}

bool Mlp::activates_late(int64_t tokens) const {
  return rounds_first() && parts_.down.fp8->turns(Shape{tokens, parts_.down.in()});
}

// The input of the second product, before it was quantised.
OperandSlots Mlp::active(const Micro& micro, Saved& saved) const {
  OperandSlots active = operand(saved, Slot::Active);
  if (activates_late(micro.size())) active.activation = *parts_.activation;
  return active;
}

// Slot::Wide holds the input of the nonlinearity, Slot::Active its output, or what it will be made
// of.
void Mlp::activate(Stream& stream, const Micro& micro, Hidden& x, Saved& saved) const {
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  const OperandSlots normed = operand(saved, Slot::Normed);
  if (is_gated()) {
    saved[Slot::Wide] = parts_.up.forward_column(stream, normed, *parts_.ranks);
    gate(stream, micro, saved);
  } else if (rounds_first()) {
    saved[Slot::Wide] = parts_.up.forward_column(stream, normed, *parts_.ranks);
    saved[Slot::Active] = saved[Slot::Wide];
    if (activates_late(micro.size())) return;
    saved[Slot::Active] = allocate_activation(stream, saved[Slot::Wide], saved[Slot::Wide].shape());
    sextant::activate(stream, saved[Slot::Active], saved[Slot::Wide], {*parts_.activation});
  } else {
    saved[Slot::Wide] = allocate_activation(stream, normed.values, {micro.size(), parts_.up.out()});
    saved[Slot::Active] = parts_.up.forward_column(
        stream, normed, *parts_.ranks,
        {.activation = *parts_.activation, .pre_activation = saved[Slot::Wide]});
  }
}

Hidden Mlp::forward(Stream& stream, const Micro& micro, Hidden x, Saved& saved) {
  activate(stream, micro, x, saved);
  Tensor update = parts_.down.forward_row(stream, active(micro, saved), *parts_.ranks);
  parts_.dropout.forward(stream, micro, *parts_.ranks, update);
  return {std::move(x.residual), std::move(update)};
}

void Mlp::discard_activations(Keep keep, Saved& saved) {
  SXT_CHECK(keep != Keep::Outside, Internal, "only attention keeps what is outside its core");
  if (keep == Keep::Input) saved.clear_but(Slot::X);
  if (keep == Keep::Nothing) saved.clear();
  if (keep != Keep::Products) return;
  saved[Slot::Normed] = Tensor();
  // Without a gate the activation took the product before it was rounded: only the product has it.
  if (is_gated()) saved[Slot::Active] = Tensor();
}

Hidden Mlp::recompute(Stream& stream, const Micro& micro, Keep keep, Hidden x, Saved& saved) {
  if (keep == Keep::Products) {
    saved[Slot::Normed] = parts_.norm.recompute(stream, norm_slots(saved));
    parts_.up.requantize(stream, operand(saved, Slot::Normed));
    if (!is_gated()) return x;
    gate(stream, micro, saved);
    parts_.down.requantize(stream, operand(saved, Slot::Active));
    return x;
  }
  if (keep == Keep::Input) x = {saved[Slot::X]};
  activate(stream, micro, x, saved);
  parts_.down.quantize_input(stream, active(micro, saved));
  return {};
}

// Afterwards Slot::Wide holds its own gradient.
Tensor Mlp::backward_input(Stream& stream, const Micro& micro, const Tensor& dy, Saved& saved) {
  const OperandSlots all_dy = gradient(saved, Slot::Dy);
  Tensor branch_dy = parts_.dropout.backward(stream, micro, *parts_.ranks, dy);
  OperandSlots dwide = gradient(saved, Slot::Wide);
  Tensor before;
  if (is_gated()) {
    const Tensor dactive =
        parts_.down.backward_input_row(stream, all_dy, std::move(branch_dy), *parts_.ranks);
    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);
  } else if (rounds_first()) {
    before = std::move(saved[Slot::Wide]);
    saved[Slot::Wide] =
        parts_.down.backward_input_row(stream, all_dy, std::move(branch_dy), *parts_.ranks);
    if (activates_late(micro.size())) {
      dwide.activation = *parts_.activation;
      dwide.backward_of = &before;
    } else {
      sextant::activate(stream, saved[Slot::Wide], saved[Slot::Wide], {*parts_.activation, before});
      before = Tensor();
    }
  } else {
    saved[Slot::Wide] = parts_.down.backward_input_row(
        stream, all_dy, std::move(branch_dy), *parts_.ranks,
        {.activation = *parts_.activation, .backward_of = saved[Slot::Wide]});
  }
  const Tensor dnormed = parts_.up.backward_input_column(stream, dwide, *parts_.ranks);
  return parts_.norm.backward(stream, dnormed, dy, norm_slots(saved));
}

void Mlp::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  parts_.down.backward_weight(stream, gradient(saved, Slot::Dy), operand(saved, Slot::Active));
  parts_.up.backward_weight_column(stream, gradient(saved, Slot::Wide),
                                   operand(saved, Slot::Normed), *parts_.ranks);
  saved.clear();
}

}  // namespace sextant

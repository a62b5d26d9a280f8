#include "model/head.h"

#include <algorithm>

#include "ops/cross_entropy.h"
#include "ops/term_bound.h"

namespace sextant {
namespace {

static_assert(Head::kChunk % kVocabBlock == 0);

// The rows begin...end of the output projection as a projection of their own.
Tensor project(Stream& stream, const Tensor& x, const Tensor& weight, int64_t begin, int64_t end) {
  Tensor y = activation(stream, x, {x.rows(), end - begin});
  linear(stream, y, x, weight.slice(begin, end), {});
  return y;
}

}  // namespace

Head::Head(const HeadParts& parts) : parts_(parts) {}

std::vector<Param*> Head::params() {
  std::vector<Param*> params;
  for (Param* param :
       {parts_.norm.weight, parts_.norm.bias, parts_.tied ? nullptr : parts_.output.weight})
    if (param != nullptr) params.push_back(param);
  return params;
}

int64_t Head::chunk() const {
  return parts_.logits == LogitsPolicy::Keep ? parts_.output.out()
                                             : std::min(kChunk, parts_.output.out());
}

Tensor Head::forward(Stream& stream, const Micro& micro, const Tensor& x, Saved& saved) {
  saved[Slot::Normed] = parts_.norm.forward(stream, x, norm_slots(saved));
  const Tensor normed = parts_.ranks->enter(stream, saved[Slot::Normed]);
  saved[Slot::Lse] = activation(stream, x, {micro.size()});
  Tensor loss = activation(stream, x, {micro.size()});
  Tensor running = activation(stream, x, {micro.size(), 3});
  cross_entropy_begin(stream, running);
  const int64_t columns = parts_.output.out();
  for (int64_t begin = 0; begin < columns; begin += chunk()) {
    const int64_t end = std::min(begin + chunk(), columns);
    const Tensor logits = project(stream, normed, parts_.output.weight->value, begin, end);
    cross_entropy_chunk(stream, running, logits, micro.targets, parts_.first_row + begin,
                        parts_.vocab);
    if (parts_.logits == LogitsPolicy::Keep) saved[Slot::Logits] = logits;
  }
  if (!parts_.ranks->is_alone())
    cross_entropy_join(stream, running, parts_.ranks->gather(stream, running));
  cross_entropy_end(stream, loss, saved[Slot::Lse], running, micro.targets, micro.z_loss);
  return loss;
}

Tensor Head::backward_input(Stream& stream, const Micro& micro, const Tensor&, Saved& saved) {
  // Under Keep only the weight half reads it.
  const Tensor normed = parts_.logits == LogitsPolicy::Chunked
                            ? parts_.ranks->enter(stream, saved[Slot::Normed])
                            : Tensor();
  Param& output = *parts_.output.weight;
  Tensor dnormed = activation(stream, saved[Slot::Lse], {micro.size(), parts_.output.in()});
  const int64_t columns = parts_.output.out();
  // One write mode for all chunks: together they are one contribution to the gradient.
  const Write write_dw =
      parts_.logits == LogitsPolicy::Chunked ? output.next_write() : Write::Replace;
  for (int64_t begin = 0; begin < columns; begin += chunk()) {
    const int64_t end = std::min(begin + chunk(), columns);
    Tensor dlogits = saved[Slot::Logits] ? saved[Slot::Logits]
                                         : project(stream, normed, output.value, begin, end);
    cross_entropy_backward(stream, dlogits, saved[Slot::Lse], micro.targets,
                           parts_.first_row + begin, parts_.vocab, micro.loss_scale, micro.z_loss);
    linear_backward_input(stream, dnormed, dlogits, output.value.slice(begin, end),
                          {.write = begin == 0 ? Write::Replace : Write::Chain});
    if (parts_.logits == LogitsPolicy::Chunked) {
      if (output.terms) term_bound(stream, output.terms, dlogits, normed, 1);
      Tensor dweight = output.grad.slice(begin, end), no_bias;
      linear_backward_weight(stream, dweight, no_bias, dlogits, normed, write_dw);
    }
  }
  saved[Slot::Lse] = Tensor();
  if (parts_.logits == LogitsPolicy::Chunked) saved[Slot::Normed] = Tensor();
  dnormed = parts_.ranks->leave(stream, dnormed);
  return parts_.norm.backward(stream, dnormed, Tensor(), norm_slots(saved));
}

void Head::backward_weight(Stream& stream, const Micro&, Saved& saved) {
  if (saved[Slot::Logits])  // by now their gradient
    parts_.output.backward_weight(stream, saved[Slot::Logits],
                                  parts_.ranks->enter(stream, saved[Slot::Normed]));
  saved.clear();
}

Tensor Head::logits(Stream& stream, const Tensor& x) {
  Saved unused;
  const Tensor normed = parts_.norm.forward(stream, x, norm_slots(unused));
  return project(stream, normed, parts_.output.weight->value, 0, parts_.output.out());
}

}  // namespace sextant

#include "model/embedding.h"

#include <utility>

namespace sextant {

Embedding::Embedding(const EmbeddingParts& parts) : parts_(parts) {}

std::vector<Param*> Embedding::params() {
  if (parts_.positions == nullptr) return {parts_.tokens};
  return {parts_.tokens, parts_.positions};
}

// Positions of this rank's tokens (sequence parallel).
Tensor Embedding::own_positions(const Micro& micro) const {
  const Range own = parts_.ranks->own(micro.size());
  return micro.positions.slice(own.begin, own.end);
}

Hidden Embedding::forward(Stream& stream, const Micro& micro, Hidden, Saved&) {
  const Tensor& table = parts_.tokens->value;
  Tensor found = allocate_activation(stream, table, {micro.size(), table.dim(1)});
  embedding(stream, found, table, micro.tokens, Write::Replace, parts_.rows);
  Tensor y = parts_.ranks->leave(stream, found);
  if (parts_.positions != nullptr)
    embedding(stream, y, parts_.positions->value, own_positions(micro), Write::Add);
  parts_.dropout.forward(stream, micro, *parts_.ranks, y);
  return {std::move(y)};
}

Tensor Embedding::backward_input(Stream& stream, const Micro& micro, const Tensor& dy,
                                 Saved& saved) {
  saved[Slot::Dy] = parts_.dropout.backward(stream, micro, *parts_.ranks, dy);
  return {};
}

void Embedding::backward_weight(Stream& stream, const Micro& micro, Saved& saved) {
  const Tensor& dy = saved[Slot::Dy];
  embedding_backward(stream, parts_.tokens->grad, parts_.ranks->enter(stream, dy), micro.tokens,
                     parts_.tokens->next_write(), parts_.rows);
  if (parts_.positions != nullptr)
    embedding_backward(stream, parts_.positions->grad, dy, own_positions(micro),
                       parts_.positions->next_write());
  saved.clear();
}

}  // namespace sextant

#include "model/embedding.h"

#include "ops/embedding.h"
#include "ops/term_bound.h"

namespace sextant {

Embedding::Embedding(Param* tokens, Param* positions) : tokens_(tokens), positions_(positions) {}

std::vector<Param*> Embedding::params() {
  if (positions_ == nullptr) return {tokens_};
  return {tokens_, positions_};
}

Tensor Embedding::forward(Stream& stream, const Micro& micro, const Tensor&, Saved&) {
  Tensor y = activation(stream, tokens_->value, {micro.size(), tokens_->value.dim(1)});
  embedding(stream, y, tokens_->value, micro.tokens, Write::Replace);
  if (positions_ != nullptr) embedding(stream, y, positions_->value, micro.positions, Write::Add);
  return y;
}

Tensor Embedding::backward_input(Stream&, const Micro&, const Tensor& dy, Saved& saved) {
  saved[Slot::Dy] = dy;
  return {};
}

void Embedding::backward_weight(Stream& stream, const Micro& micro, Saved& saved) {
  const Tensor& dy = saved[Slot::Dy];
  for (Param* param : {tokens_, positions_})
    if (param != nullptr && param->terms) term_bound(stream, param->terms, dy, Tensor(), 1);
  embedding_backward(stream, tokens_->grad, dy, micro.tokens, tokens_->next_write());
  if (positions_ != nullptr)
    embedding_backward(stream, positions_->grad, dy, micro.positions, positions_->next_write());
  saved.clear();
}

}  // namespace sextant

#include "parallel/tensor_ranks.h"

namespace sextant {
namespace {

Tensor allocate(Stream& stream, const Tensor& like, const Shape& shape) {
  return stream.arena().allocate(Category::Activations, like.dtype(), shape);
}

}  // namespace

Tensor TensorRanks::enter(Stream& stream, const Tensor& x) const {
  if (!has_own_tokens()) return x;
  Tensor all = allocate(stream, x, {x.rows() * size(), x.dim(1)});
  ranks_->all_gather(stream, all, x);
  return all;
}

Tensor TensorRanks::leave(Stream& stream, const Tensor& term) const {
  if (is_alone()) return term;
  if (!has_own_tokens()) {
    Tensor sum = term;
    ranks_->all_reduce(stream, sum, Fold::Sum);
    return sum;
  }
  Tensor own = allocate(stream, term, {term.rows() / size(), term.dim(1)});
  ranks_->reduce_scatter(stream, own, term, Fold::Sum);
  return own;
}

Tensor TensorRanks::gather(Stream& stream, const Tensor& term) const {
  Tensor all = allocate(stream, term, {size(), term.dim(0), term.dim(1)});
  ranks_->all_gather(stream, all, term);
  return all;
}

}  // namespace sextant

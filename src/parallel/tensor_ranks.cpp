#include "parallel/tensor_ranks.h"

#include "parallel/activation.h"
#include "parallel/tensor_ring.h"

namespace sextant {

Tensor TensorRanks::enter(Stream& stream, const Tensor& x) const {
  if (!is_sequence_parallel()) return x;
  Tensor all = allocate_activation(stream, x.dtype(), {x.rows() * size(), x.dim(1)});
  ranks_->all_gather(stream, all, x);
  return all;
}

Tensor TensorRanks::enter(Stream& stream, const Tensor& x,
                          FunctionRef<void(const Tensor& piece, const Range& rows)> work) const {
  if (!moves_in_pieces()) {
    const Tensor all = enter(stream, x);
    work(all, {0, all.rows()});
    return all;
  }
  Tensor all = allocate_activation(stream, x.dtype(), {x.rows() * size(), x.dim(1)});
  gather_ring(stream, *ranks_, all, x,
              [&](const Range& rows) { work(all.slice(rows.begin, rows.end), rows); });
  return all;
}

Tensor TensorRanks::leave(Stream& stream, const Tensor& term) const {
  if (is_alone()) return term;
  if (is_injected(InjectionKind::DropRowSum)) return term.slice(own(term.rows()));
  if (!is_sequence_parallel()) {
    Tensor sum = term;
    ranks_->all_reduce(stream, sum, ReduceOp::Sum);
    return sum;
  }
  Tensor own = allocate_activation(stream, term.dtype(), {term.rows() / size(), term.dim(1)});
  ranks_->reduce_scatter(stream, own, term, ReduceOp::Sum);
  return own;
}

Tensor TensorRanks::leave(Stream& stream, DType dtype, const Shape& shape,
                          FunctionRef<void(Tensor& term, const Range& rows)> make) const {
  if (moves_in_pieces())
    return reduce_ring(stream, *ranks_, dtype, {shape[0] / size(), shape[1]}, make);
  Tensor term = allocate_activation(stream, dtype, shape);
  make(term, {0, shape[0]});
  return leave(stream, term);
}

Tensor TensorRanks::all_gather(Stream& stream, const Tensor& term) const {
  Tensor all = allocate_activation(stream, term.dtype(), {size(), term.dim(0), term.dim(1)});
  ranks_->all_gather(stream, all, term);
  return all;
}

}  // namespace sextant

#pragma once
#include "base/function_ref.h"
#include "base/range.h"
#include "comm/communicator.h"

namespace sextant {

// All-gather and reduce-scatter over a ring of ranks, in pieces: the rows of one rank travel to the
// next while this rank works on those it has. As many elements move as in the collectives. Nobody
// else may send messages over `ranks`; when the calls return nothing is under way.

// Fills `all`, of which this rank has `own`. Calls work(rows) once for the rows of each rank, when
// they are there: first its own, then those of the rank before, and so on.
//   own: [rows, width]   all: [ranks * rows, width]
void gather_ring(Stream& stream, Communicator& ranks, Tensor& all, const Tensor& own,
                 FunctionRef<void(const Range& rows)> work);

// The sum over the ranks of their terms, of this rank's rows. Calls make(term, rows) once for the
// rows of each rank, its own last, to write this rank's term of their sum. The terms of the rows of
// rank x are added in the order x + 1, x + 2, ... x: the same bits on every run.
//   shape: of a term, [rows, width]; at most three such tensors exist at a time
Tensor reduce_ring(Stream& stream, Communicator& ranks, DType dtype, const Shape& shape,
                   FunctionRef<void(Tensor& term, const Range& rows)> make);

}  // namespace sextant

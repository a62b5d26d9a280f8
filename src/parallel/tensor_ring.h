#pragma once
#include "base/function_ref.h"
#include "base/range.h"
#include "comm/communicator.h"

namespace sextant {

// Ring all-gather and reduce-scatter that overlap with compute, piece by piece. The volume is that
// of the collectives. The calls have exclusive use of messages over `ranks` and leave none in
// flight.

// All-gathers `own` into `all`. Calls work(rows) once for the rows of each rank as soon as they are
// there: first this rank's, then those of the previous rank, and so on.
//   own: [rows, width]   all: [ranks * rows, width]
void gather_ring(Stream& stream, Communicator& ranks, Tensor& all, const Tensor& own,
                 FunctionRef<void(const Range& rows)> work);

// Reduce-scatter: returns the sum over the ranks of this rank's rows. Calls make(term, rows) once
// for the rows of each rank, this rank's last, to compute its partial sum of these rows. The sum of
// rank x's rows runs over ranks x + 1, x + 2, ... x: the same bits on every run.
//   shape: of the rows of one rank, [rows, width]; at most three such tensors exist at a time
Tensor reduce_ring(Stream& stream, Communicator& ranks, DType dtype, const Shape& shape,
                   FunctionRef<void(Tensor& term, const Range& rows)> make);

}  // namespace sextant

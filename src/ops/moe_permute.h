#pragma once
#include "base/range.h"
#include "ops/dispatch.h"

namespace sextant {

// Order of tokens for experts. A pair is one choice of one token; pairs are sorted by expert, those
// of one expert in the order of the tokens. Dropped pairs (moe_capacity.h) have no row: the rows
// end with those of the others, they add nothing to a sum, and the gradient of their gates is 0.
// There may be fewer rows than pairs where pairs were dropped.

// The place of each pair in that order, or kDropped.
//   places: i32 [tokens * chosen]   choice: i32 [tokens, chosen]   counts: i32 [experts]
void moe_places(Stream& stream, Tensor& places, const Tensor& choice, const Tensor& counts);

// rows[places[t, j]] = x[t].   rows: [tokens * chosen, hidden]   x: [tokens, hidden]
void moe_permute(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places);
// dx[t] = sum over j of drows[places[t, j]], in ascending j.
void moe_permute_backward(Stream& stream, Tensor& dx, const Tensor& drows, const Tensor& places);

// y[t] = sum over j of gates[t, j] * rows[places[t, j]], in ascending j.
//   gates: [tokens, chosen], of the type of statistics
void moe_combine(Stream& stream, Tensor& y, const Tensor& rows, const Tensor& gates,
                 const Tensor& places);
// drows[places[t, j]] = gates[t, j] * dy[t],  dgates[t, j] = <dy[t], rows[places[t, j]]>. drows may
// be rows.
void moe_combine_backward(Stream& stream, Tensor& drows, Tensor& dgates, const Tensor& dy,
                          const Tensor& rows, const Tensor& gates, const Tensor& places);

// Rows that come from several ranks (expert parallel). counts[s, e] rows of source s belong to
// expert e; only those of `experts` are here.
//   counts: i32 [sources, all experts]

// offsets[i] = first row of the i-th of these experts when rows are sorted by (expert, source); the
// last is the number of rows.   offsets: i32 [experts + 1]
void moe_offsets(Stream& stream, Tensor& offsets, const Tensor& counts, const Range& experts);
// From the order (source, expert), in which they arrive, to (expert, source).  [rows, hidden]
void moe_group(Stream& stream, Tensor& by_expert, const Tensor& by_source, const Tensor& counts,
               const Range& experts);
void moe_ungroup(Stream& stream, Tensor& by_source, const Tensor& by_expert, const Tensor& counts,
                 const Range& experts);

}  // namespace sextant

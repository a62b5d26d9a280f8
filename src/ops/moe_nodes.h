#pragma once
#include "base/range.h"
#include "ops/dispatch.h"

namespace sextant {

// Tokens that cross to a node of experts once, whatever the number of its experts that they choose
// (hierarchical all-to-all). Nodes are equal ranges of experts.

// nodes[t, d] = d if a choice of token t is an expert of node d, else kDropped: moe_places of it is
// the order in which tokens cross.
//   nodes: i32 [tokens, nodes]   choice: i32 [tokens, chosen]
void moe_nodes(Stream& stream, Tensor& nodes, const Tensor& choice, int64_t experts);
// The choices among `experts`, counted from the first of them; others become kDropped.
//   local, choice: i32 [tokens, chosen]
void moe_local_choice(Stream& stream, Tensor& local, const Tensor& choice, const Range& experts);
// Copies each token to its places that are not kDropped: rows[places[t, j]] = x[t], or with gates
// gates[t, j] * x[t].
//   rows: [any number, width]   x: [tokens, width], of any type without gates
//   places: i32 [tokens * copies]   gates: [tokens, copies], in the type of statistics, or empty
void moe_copy_rows(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places,
                   const Tensor& gates);
// Counts in the order (expert, node) of the rows that each rank of a node passes on.
//   out: i32 [ranks of a node, experts * nodes]   counts: i32 [ranks, all experts], the ranks of a
//   node following each other
void moe_node_counts(Stream& stream, Tensor& out, const Tensor& counts, const Range& experts);

}  // namespace sextant

#pragma once
#include <span>

#include "ops/update.h"

namespace sextant {

// Balance of experts without an auxiliary loss: a bias of each expert, added to its score for the
// choice only, moves by a fixed rate against its load error.

// The load error of these tokens: experts * count - sum of the counts. It is zero for the mean, and
// those of several batches of tokens add up. Whole numbers, exact up to 2^24 in f32.
//   error: [experts], f32 or f64   counts: i32 [experts]
void router_load_error(Stream& stream, Tensor& error, const Tensor& counts, Write write);

// A slice of a bias with the load error of the whole step. Types as in SgdPart.
struct RouterBiasPart {
  Tensor bias, error;
  Tensor master = {};  // empty: the bias is its own master
};
// bias -= rate * sign(error), for all parts.   scalars: see UpdateScalar; Apply is read
void router_bias_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars, double rate);
// bias = error: the load of the last step instead of a bias.
void router_load_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars);

}  // namespace sextant

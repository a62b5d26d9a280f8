#pragma once
#include <span>

#include "comm/communicator.h"
#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// sqrt of the sum of squares of all gradients: each slice that counts summed in fixed blocks in
// f64, the slices in order, then the ranks of each group of `others`, which divide the parameters
// (none: one rank owns all). `scratch` is a [1] tensor of f64. Rounded to f32, so that how the
// parameters were divided, which moves the sum by some 1e-16, all but never shows.
double gradient_norm(Stream& stream, std::span<const OwnedSlice> slices, Tensor& scratch,
                     std::span<Communicator* const> others);

// The parts of it: the sum of squares, and the norm that it leads to.
double gradient_squares(Stream& stream, std::span<const OwnedSlice> slices, Tensor& scratch,
                        std::span<Communicator* const> others);
double norm_of(double squares);

// What to multiply gradients of this norm with so that it is at most `limit`; 1 when limit is 0.
double clip_scale(double norm, double limit);

}  // namespace sextant

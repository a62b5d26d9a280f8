#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "ops/sum.h"
#include "tensor/copy.h"

namespace sextant {

double gradient_squares(Stream& stream, std::span<const OwnedSlice> slices, Tensor& scratch,
                        std::span<Communicator* const> others) {
  Write write = Write::Replace;
  for (const OwnedSlice& slice : slices) {
    if (!slice.counts) continue;
    sum_of_squares(stream, scratch, slice.grad, write);
    write = Write::Add;
  }
  double total = 0;
  if (write == Write::Add) copy_to_host<double>(stream, {&total, 1}, scratch);
  for (Communicator* ranks : others) ranks->all_reduce_host(std::span(&total, 1), Fold::Sum);
  return total;
}

double norm_of(double squares) {
  return static_cast<float>(std::sqrt(squares));
}

double gradient_norm(Stream& stream, std::span<const OwnedSlice> slices, Tensor& scratch,
                     std::span<Communicator* const> others) {
  return norm_of(gradient_squares(stream, slices, scratch, others));
}

double clip_scale(double norm, double limit) {
  return limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6));
}

}  // namespace sextant

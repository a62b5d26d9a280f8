#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "ops/sum.h"
#include "tensor/copy.h"

namespace sextant {

GradientSquares::GradientSquares(Stream& stream, std::span<const OwnedSlice> slices,
                                 std::vector<Communicator*> others)
    : others_(std::move(others)),
      squares_(stream.arena().allocate(Category::Workspace, DType::F64, {1})) {
  for (const OwnedSlice& slice : slices)
    if (slice.in_grad_norm) gradients_.push_back(slice.grad);
}

void GradientSquares::sum(Stream& stream, size_t groups) {
  sum_of_squares(stream, squares_, gradients_);
  for (size_t i = 0; i < groups; ++i)
    others_[i]->all_reduce(stream, squares_, ReduceOp::Sum, When::Now, TrafficClass::Control);
}

double GradientSquares::read(Stream& stream) const {
  double squares = 0;
  copy_to_host<double>(stream, {&squares, 1}, squares_);
  return squares;
}

double norm_of(double squares, double loss_scale) {
  return static_cast<float>(std::sqrt(squares) / loss_scale);
}

double clip_scale(double norm, double limit) {
  return limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6));
}

}  // namespace sextant

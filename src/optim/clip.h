#pragma once
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// The sum of squares of all gradients of a model, in device memory: each slice that counts summed
// in fixed blocks in f64, the slices in order, then the ranks of each group that divides the
// parameters.
class GradientSquares {
 public:
  // `others`: the groups, in order; none where one rank owns all. What it is given must outlive it.
  GradientSquares(Stream& stream, std::span<const OwnedSlice> slices,
                  std::vector<Communicator*> others);

  // Over the first `groups` of them.
  void sum(Stream& stream, size_t groups);
  void sum(Stream& stream) { sum(stream, others_.size()); }
  size_t groups() const { return others_.size(); }

  const Tensor& squares() const { return squares_; }  // [1], f64
  double read(Stream& stream) const;                  // waits for it

 private:
  std::vector<Tensor> gradients_;
  std::vector<Communicator*> others_;
  Tensor squares_;
};

// The norm that a sum of squares leads to, rounded to f32, so that how the parameters were divided,
// which moves the sum by some 1e-16, all but never shows.
double norm_of(double squares);

// What to multiply gradients of this norm with so that it is at most `limit`; 1 when limit is 0.
// The op clip() computes the same.
double clip_scale(double norm, double limit);

}  // namespace sextant

#pragma once
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "parallel/param.h"
#include "tensor/stream.h"

namespace sextant {

// The sum of squares of all gradients of a model, in device memory: each slice that counts is
// summed in fixed blocks in f64, then the slices in order, then over the ranks of each group that
// shards the parameters.
class GradientSquares {
 public:
  // `others`: these groups, in order; empty if one rank owns all. All references must outlive it.
  GradientSquares(Stream& stream, std::span<const OwnedSlice> slices,
                  std::vector<Communicator*> others);

  // Sums over the first `groups` of them.
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

// sqrt(squares) / loss_scale, rounded to f32: sharding changes the sum by about 1e-16, which this
// rounding almost always hides.
double norm_of(double squares, double loss_scale = 1);

// The factor that scales gradients of this norm to at most `limit`; 1 when limit is 0. The op
// clip() computes the same.
double clip_scale(double norm, double limit);

}  // namespace sextant

#pragma once
#include <string>

#include "fault/inject.h"
#include "model/layer.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// Dropout of hidden values at one place of the model, as a part of a layer. What is dropped depends
// on (seed, name, step, index of the token, feature) alone, so it is the same under every layout;
// and backward draws it again, so no mask is kept. A micro-batch without indices, as in evaluation
// and generation, loses nothing.
struct Dropout {
  std::string name;  // of the place
  double p = 0;      // chance of being dropped
  uint64_t seed = 0;
  Injection inject = {};
  int rank = 0;  // of the world, for `inject`

  bool is_on(const Micro& micro) const { return p > 0 && micro.indices; }

  // y = what is left of y, in place. Of the ranks that share the layer each may have some of the
  // tokens.
  //   y: [own tokens, hidden]
  void forward(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y) const;
  // The gradient of what forward took: dy itself when it is not on.
  Tensor backward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                  const Tensor& dy) const;

 private:
  void apply(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y,
             const Tensor& x) const;
};

}  // namespace sextant

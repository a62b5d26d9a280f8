#pragma once
#include <string>

#include "fault/inject.h"
#include "model/layer.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// Dropout of hidden values at one place of the model; part of a layer. The mask depends only on
// (seed, name, step, token index, feature), so it is equal in every layout, and backward draws it
// again instead of storing it. Off for micro-batches without token indices (evaluation and
// generation).
struct Dropout {
  std::string name;  // of the place in the model
  double p = 0;      // drop probability
  uint64_t seed = 0;
  Injection inject = {};
  int rank = 0;  // global rank, for `inject`

  bool is_on(const Micro& micro) const { return p > 0 && micro.indices; }

  // Applies dropout to y in place. With sequence parallelism a rank has a part of the tokens.
  //   y: [own tokens, hidden]
  void forward(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y) const;
  // The same when a layer is recomputed.
  void replay(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y) const;
  // The gradient of forward's input: dy itself when dropout is off.
  Tensor backward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                  const Tensor& dy) const;

 private:
  // `place`: of the mask.
  void apply(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y,
             const Tensor& x, std::string_view place) const;
  bool is_injected(InjectionKind kind, const Micro& micro) const {
    return inject.hits(kind, -1, rank, micro.scalars.step + 1);
  }
};

}  // namespace sextant

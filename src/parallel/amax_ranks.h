#pragma once
#include "comm/communicator.h"
#include "fault/inject.h"

namespace sextant {

// The ranks that hold the parts of one tensor of a micro-batch, or of one weight: tensor and
// context parallel. With a scale per tensor they agree on the largest absolute value, so that a
// tensor has the fp8 scale that it has on one rank. Ranks with copies of it change nothing.
class AmaxRanks {
 public:
  // Both must outlive it.
  AmaxRanks(Communicator& tensor, Communicator& context, const Injection& inject = {})
      : tensor_(&tensor), context_(&context), inject_(inject) {}

  // amax: f32, the same number of elements on each rank; becomes the maximum over the ranks.
  void agree(Stream& stream, Tensor& amax) const {
    for (Communicator* ranks : {tensor_, context_})
      if (ranks->size() > 1) ranks->all_reduce(stream, amax, ReduceOp::Max);
  }
  // Whether each tensor is whole on its rank.
  bool is_one() const { return tensor_->size() == 1 && context_->size() == 1; }
  bool is_injected(InjectionKind kind) const {  // a fault, for tests
    return inject_.hits(kind, tensor_->world_rank(tensor_->rank()));
  }

 private:
  Communicator* tensor_;
  Communicator* context_;
  Injection inject_;
};

}  // namespace sextant

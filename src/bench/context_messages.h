#pragma once
#include <memory>

#include "ops/heads.h"
#include "parallel/context_ranks.h"

namespace sextant {

// What ranks that share sequences send each other for one attention, and nothing else: the same
// calls of the same sizes in the same order, with no work in between.
class ContextMessages {
 public:
  // All ranks make theirs together; `world` and `ranks` must outlive it. `heads` are of the tokens
  // of one rank.
  ContextMessages(Stream& stream, Communicator& world, const ContextRanks& ranks,
                  const Heads& heads);

  void forward(Stream& stream);
  void backward(Stream& stream);

 private:
  void exchange(Stream& stream, int64_t elements);
  void gather(Stream& stream);
  void pass_keys(Stream& stream);
  void pass_keys_and_gradients(Stream& stream);

  Communicator& world_;
  const ContextRanks& ranks_;
  std::unique_ptr<Communicator> group_;
  int64_t qkv_, out_;       // elements that a rank exchanges
  Tensor mine_, received_;  // of a group
  Tensor kv_, next_, dkv_, others_;
  Tensor whole_;  // keys and values of all ranks
};

}  // namespace sextant

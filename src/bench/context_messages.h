#pragma once
#include <memory>

#include "ops/heads.h"
#include "parallel/context_ranks.h"

namespace sextant {

// The messages of one context parallel attention without its compute: the same calls of the same
// sizes in the same order.
class ContextMessages {
 public:
  // Collective; `world` and `ranks` must outlive it. `heads`: of one rank's tokens.
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
  Tensor mine_, received_;  // within a Ulysses group
  Tensor kv_, next_, dkv_, others_;
  Tensor whole_;  // keys and values of all ranks
};

}  // namespace sextant

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "parallel/expert_nodes.h"
#include "parallel/expert_ranks.h"

namespace sextant {

// How the rows of tokens reach the ranks of their experts and come back: one row per choice
// (ExpertRanks), or by nodes of ranks, to each of which a token crosses once (ExpertNodes). Both
// give the same rows in the same order.
class ExpertExchange {
 public:
  using Meanwhile = ExpertRanks::Meanwhile;
  // Of a routing, kept from forward to backward.
  //   places: i32 [pairs], of the choices sorted by expert
  //   counts: gathered, i32 [sources, experts]
  struct Slots {
    const Tensor &places, &counts;
    ExpertNodes::Slots nodes;  // empty without nodes
    std::vector<int64_t>& sizes;
  };

  // Collective over `ep`, which must outlive it as `experts` must. Nodes of one rank, and a rank
  // that has all experts, need no nodes.
  ExpertExchange(Communicator& ep, const ExpertRanks& experts, int ranks_of_node);

  // First of all exchanges of a routing.   choice: i32 [tokens, chosen], kDropped for dropped ones
  void route(Stream& stream, const Slots& slots, const Tensor& choice,
             const std::string& layer) const;
  // The tokens of this rank's experts: [tokens, width] -> [arrived, width].
  Tensor dispatch(Stream& stream, const Tensor& x, const Slots& slots, const std::string& layer,
                  Meanwhile meanwhile) const;
  // The gradients of what combine returned, which are dy times the gates.
  //   rows: [pairs, width], these products   dy: [tokens, width]   gates: [tokens, chosen]
  Tensor dispatch_gradients(Stream& stream, Tensor rows, const Tensor& dy, const Tensor& gates,
                            const Slots& slots, Meanwhile meanwhile) const;
  // The way back: [arrived, width] -> [pairs, width].
  Tensor combine(Stream& stream, Tensor rows, const Slots& slots,
                 Meanwhile meanwhile = nullptr) const;

 private:
  const ExpertRanks* experts_;
  std::optional<ExpertNodes> nodes_;
};

}  // namespace sextant

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "parallel/expert_nodes.h"
#include "parallel/expert_ranks.h"

namespace sextant {

// How the rows of tokens reach the ranks of their experts and come back as sums: one row per choice
// (ExpertRanks), or by nodes of ranks, to each of which a token crosses once (ExpertNodes). Both
// give experts the same rows in the same order; nodes add the terms of a sum in another one.
class ExpertExchange {
 public:
  using Meanwhile = ExpertRanks::Meanwhile;
  // Of a routing, kept from forward to backward.
  //   places: i32 [pairs], of the choices sorted by expert
  //   counts: gathered, i32 [sources, experts]
  //   outputs: of experts, for this rank's choices, or with nodes for the copies that it passed on
  struct Slots {
    const Tensor &places, &counts;
    Tensor& outputs;
    ExpertNodes::Slots nodes;  // the others are empty without nodes
    std::vector<int64_t>& sizes;
  };

  // Collective over `ep`, which must outlive it as `experts` must. Nodes of one rank, and a rank
  // that has all experts, need no nodes.
  ExpertExchange(Communicator& ep, const ExpertRanks& experts, int ranks_of_node);

  // First of all exchanges of a routing.   choice: i32 [tokens, chosen], kDropped for dropped ones
  void route(Stream& stream, const Slots& slots, const Tensor& choice,
             const std::string& layer) const;
  // The tokens of this rank's experts: [tokens, width] -> [arrived, width].
  //   gates: [tokens, chosen]
  Tensor dispatch(Stream& stream, const Tensor& x, const Tensor& gates, const Slots& slots,
                  const std::string& layer, Meanwhile meanwhile) const;
  // The way back: y[t] = sum over its choices of gate * output. Leaves the outputs in their slot.
  //   rows: [arrived, width]   y: [tokens, width]
  void combine(Stream& stream, Tensor& y, Tensor rows, const Tensor& gates, const Slots& slots,
               Meanwhile meanwhile = nullptr) const;
  // Without the sum, for recomputation.
  void return_outputs(Stream& stream, Tensor rows, const Slots& slots,
                      Meanwhile meanwhile = nullptr) const;
  // The gradients of outputs for this rank's experts, [arrived, width], and of gates. Frees the
  // outputs.   dy: [tokens, width]   dgates: [tokens, chosen]
  Tensor dispatch_backward(Stream& stream, Tensor& dgates, const Tensor& dy, const Tensor& gates,
                           const Slots& slots, Meanwhile meanwhile) const;
  // dx[t] = sum over its choices of the gradients of their rows.
  //   rows: [arrived, width]   dx: [tokens, width]
  void combine_backward(Stream& stream, Tensor& dx, Tensor rows, const Slots& slots,
                        Meanwhile meanwhile = nullptr) const;

 private:
  const ExpertRanks* experts_;
  std::optional<ExpertNodes> nodes_;
};

}  // namespace sextant

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
  // Of a routing, kept from forward to backward.
  //   places: i32 [pairs], of the choices sorted by expert
  //   counts: gathered, i32 [sources, experts]
  //   outputs: of experts, for this rank's choices, or with nodes for the copies that it passed on
  struct Slots {
    const Tensor &places, &counts;
    Tensor& outputs;
    ExpertNodes::Slots nodes;  // the others are empty without nodes
    std::vector<int64_t>& sizes;
    RowsInFlight& flight;
  };
  // Whether the way back ends with the sum over a token's choices.
  enum class Return { Sums, OutputsAlone };

  // Collective over `ep`, which must outlive it as `experts` must. Nodes of one rank, and a rank
  // that has all experts, need no nodes.
  ExpertExchange(Communicator& ep, const ExpertRanks& experts, int ranks_of_node);

  // First of all exchanges of a routing.   choice: i32 [tokens, chosen], kDropped for dropped ones
  void route(Stream& stream, const Slots& slots, const Tensor& choice,
             const std::string& layer) const;
  // Each exchange in two calls: with When::Later the rank can do other work between them, while
  // its rows are on their way.
  //
  // The tokens of this rank's experts: [tokens, width] -> [arrived, width].
  //   gates: [tokens, chosen]
  void start_dispatch(Stream& stream, const Tensor& x, const Tensor& gates, const Slots& slots,
                      const std::string& layer, When when) const;
  Tensor end_dispatch(Stream& stream, const Slots& slots) const;
  // The way back: y[t] = sum over its choices of gate * output. Leaves the outputs in their slot.
  // Recomputation needs these alone, and no y.
  //   rows: [arrived, width]   y: [tokens, width]
  void start_combine(Stream& stream, Tensor rows, const Slots& slots, Return what, When when) const;
  void end_combine(Stream& stream, Tensor& y, const Tensor& gates, const Slots& slots) const;
  void end_outputs(const Slots& slots) const;
  // The gradients of outputs for this rank's experts, [arrived, width], and of gates. Frees the
  // outputs.   dy: [tokens, width]   dgates: [tokens, chosen], complete at the end
  void start_dispatch_backward(Stream& stream, Tensor& dgates, const Tensor& dy,
                               const Tensor& gates, const Slots& slots, When when) const;
  Tensor end_dispatch_backward(Stream& stream, Tensor& dgates, const Slots& slots) const;
  // dx[t] = sum over its choices of the gradients of their rows.
  //   rows: [arrived, width]   dx: [tokens, width]
  void start_combine_backward(Stream& stream, Tensor rows, const Slots& slots, When when) const;
  void end_combine_backward(Stream& stream, Tensor& dx, const Slots& slots) const;

 private:
  const ExpertRanks* experts_;
  std::optional<ExpertNodes> nodes_;
};

}  // namespace sextant

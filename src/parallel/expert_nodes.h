#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/expert_ranks.h"

namespace sextant {

// Hierarchical all-to-all of an expert-parallel group, as one rank sees it. Consecutive ranks form
// nodes; ranks at the same place in their nodes form a group across nodes. A token crosses to the
// rank at its own place in each node that has an expert of its choice, once, with its choices.
// There it is copied for each of them, and the copies go to the ranks of their experts inside the
// node. Outputs of experts come back to that rank, which keeps them for backward, and cross as
// their sum times the gates; so do gradients of tokens. Rows arrive at experts in the order of
// ExpertRanks, with the same bits. A sum is that of a node's choices in ascending order, rounded to
// the type of the rows, then that over nodes in ascending order: not the order of ExpertRanks.
// Traffic is counted by level, for the axes "ep_inside" and "ep_between". On a phantom device
// routing is balanced.
class ExpertNodes {
 public:
  // Of a routing, kept from forward to backward.
  //   crossing: i32 [tokens * nodes], the place of each token among those that cross
  //   local: i32 [tokens that came * chosen], the places of their copies in this node
  //   counts: i32 [ranks of a node, own experts * nodes], of the rows that come from each rank
  //   gates: [tokens that came, chosen], from forward on
  //   outputs: [copies, width], of the experts for them, from forward on
  struct Slots {
    Tensor &crossing, &local, &counts, &gates, &outputs;
  };

  // Collective over `ranks`, which must outlive it as `experts` must.
  ExpertNodes(Communicator& ranks, const ExpertRanks& experts, int ranks_of_node);

  int64_t nodes() const { return between_->size(); }
  // Sends the choices across nodes, fills the slots of the routing, and reads sizes as
  // ExpertRanks::read_sizes.
  //   choice: i32 [tokens, chosen], kDropped for dropped ones
  //   counts: gathered, [ranks, experts]
  void route(Stream& stream, const Slots& slots, std::vector<int64_t>& sizes, const Tensor& choice,
             const Tensor& counts, const std::string& layer) const;
  // Each exchange in two calls: with When::Later the rank can do other work between them, while
  // rows cross to other nodes. Inside of nodes they move at once.
  //
  // The copies of tokens for this rank's experts, [arrived, width]: the dispatch of ExpertRanks of
  // the rows of x.   x: [tokens, width]   gates: [tokens, chosen]
  void start_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& x, const Tensor& gates,
                      const Slots& slots, std::span<const int64_t> sizes, When when) const;
  Tensor end_dispatch(Stream& stream, RowsInFlight& flight, const Slots& slots,
                      std::span<const int64_t> sizes) const;
  // Brings the outputs of experts, [arrived, width], to the ranks that passed on the copies.
  void return_outputs(Stream& stream, Tensor rows, const Slots& slots,
                      std::span<const int64_t> sizes) const;
  // y[t] = sum over its choices of gate * output.   y: [tokens, width]
  void start_combine(Stream& stream, RowsInFlight& flight, const Slots& slots,
                     std::span<const int64_t> sizes, When when) const;
  void end_combine(Stream& stream, RowsInFlight& flight, Tensor& y, const Slots& slots) const;
  // The gradients of outputs for this rank's experts, [arrived, width], and of the gates. Frees the
  // outputs.   dy: [tokens, width]   dgates: [tokens, chosen]
  void start_dispatch_backward(Stream& stream, RowsInFlight& flight, const Tensor& dy,
                               const Slots& slots, std::span<const int64_t> sizes, When when) const;
  Tensor end_dispatch_backward(Stream& stream, RowsInFlight& flight, Tensor& dgates,
                               const Slots& slots, std::span<const int64_t> sizes) const;
  // dx[t] = sum over its choices of the gradients of their rows.
  //   rows: [arrived, width]   dx: [tokens, width]
  void start_combine_backward(Stream& stream, RowsInFlight& flight, Tensor rows, const Slots& slots,
                              std::span<const int64_t> sizes, When when) const;
  void end_combine_backward(Stream& stream, RowsInFlight& flight, Tensor& dx,
                            const Slots& slots) const;

 private:
  // Rows sent to and received from each rank of a level.
  struct Split {
    std::span<const int64_t> out, in;
  };
  Split tokens_between(std::span<const int64_t> sizes) const;  // that cross
  Split pairs_inside(std::span<const int64_t> sizes) const;
  // Rows of tokens to the nodes that they cross to, in the order in which they come there; and
  // their sums over nodes on the way back.
  void start_cross(Stream& stream, RowsInFlight& flight, const Tensor& x, const Slots& slots,
                   std::span<const int64_t> sizes, When when) const;
  Tensor end_cross(RowsInFlight& flight) const;
  void start_cross_back(Stream& stream, RowsInFlight& flight, Tensor rows, const Slots& slots,
                        std::span<const int64_t> sizes, When when) const;
  void end_cross_back(Stream& stream, RowsInFlight& flight, Tensor& sum, const Slots& slots) const;
  // Copies to the ranks of their experts, and back.
  Tensor pass_on(Stream& stream, Tensor rows, const Slots& slots,
                 std::span<const int64_t> sizes) const;
  Tensor pass_back(Stream& stream, Tensor rows, const Slots& slots,
                   std::span<const int64_t> sizes) const;
  static void set_elements(RowsInFlight& flight, const Split& rows, int64_t width);
  // From flight.from to flight.to, between nodes; and at once, between these ranks.
  void start_move(Stream& stream, RowsInFlight& flight, const Split& rows, When when) const;
  void move(Stream& stream, Communicator& ranks, Tensor& to, const Tensor& from,
            const Split& rows) const;
  int64_t tokens_of(const Slots& slots) const { return slots.crossing.dim(0) / nodes(); }
  Range experts_of_node() const;
  // Memory for tokens that cross from this rank, tokens that come, and their copies.
  Tensor leaving(Stream& stream, DType dtype, int64_t tokens, int64_t width) const;
  Tensor coming(Stream& stream, DType dtype, int64_t rows, int64_t tokens, int64_t width) const;
  Tensor copies(Stream& stream, DType dtype, int64_t rows, int64_t tokens, int64_t width) const;
  int64_t most(int64_t worst, int64_t tokens) const;
  void find_sizes(std::vector<int64_t>& sizes) const;
  void assume_balance(int64_t tokens) const;

  const ExpertRanks* experts_;
  std::unique_ptr<Communicator> inside_, between_;
  // Of the call in progress, allocated once.
  mutable std::vector<int32_t> counts_, crossing_;
  mutable RowsInFlight at_once_;
  // Of the last assume_balance, which a dry run repeats for every layer and micro-batch.
  struct Balanced {
    int64_t tokens = -1;
    std::vector<int32_t> counts, crossing;
  };
  mutable Balanced balanced_;
};

}  // namespace sextant

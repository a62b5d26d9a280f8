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
// node. Results, one row per choice, come back the same way: the gradients of gates need each of
// them. Rows arrive at experts and come back in the orders of ExpertRanks, so with the same bits.
// Traffic is counted by level, for the axes "ep_inside" and "ep_between". On a phantom device
// routing is balanced.
class ExpertNodes {
 public:
  using Meanwhile = ExpertRanks::Meanwhile;
  // Of a routing, kept from forward to backward.
  //   crossing: i32 [tokens * nodes], the place of each token among those that cross
  //   local: i32 [tokens that came * chosen], the places of their copies in this node
  //   counts: i32 [ranks of a node, own experts * nodes], of the rows that come from each rank
  struct Slots {
    Tensor &crossing, &local, &counts;
  };

  // Collective over `ranks`, which must outlive it as `experts` must.
  ExpertNodes(Communicator& ranks, const ExpertRanks& experts, int ranks_of_node);

  int64_t nodes() const { return between_->size(); }
  // Sends the choices across nodes, fills the slots, and reads sizes as ExpertRanks::read_sizes.
  //   choice: i32 [tokens, chosen], kDropped for dropped ones
  //   counts: gathered, [ranks, experts]
  void route(Stream& stream, const Slots& slots, std::vector<int64_t>& sizes, const Tensor& choice,
             const Tensor& counts, const std::string& layer) const;
  // The copies of tokens for this rank's experts, [arrived, width], times their gates if there are
  // any: ExpertRanks::dispatch of the rows of x.   x: [tokens, width]   gates: [tokens, chosen]
  Tensor dispatch(Stream& stream, const Tensor& x, const Tensor& gates, const Slots& slots,
                  std::span<const int64_t> sizes, Meanwhile meanwhile = nullptr) const;
  // [arrived, width] -> [pairs, width], as ExpertRanks::combine.
  Tensor combine(Stream& stream, Tensor rows, const Tensor& counts, const Slots& slots,
                 std::span<const int64_t> sizes, int64_t pairs,
                 Meanwhile meanwhile = nullptr) const;

 private:
  // Rows sent to and received from each rank of a level.
  struct Split {
    std::span<const int64_t> out, in;
  };
  Split tokens_between(std::span<const int64_t> sizes) const;  // that cross
  Split pairs_between(std::span<const int64_t> sizes) const;   // of their choices
  Split pairs_inside(std::span<const int64_t> sizes) const;
  Pending move(Stream& stream, Communicator& ranks, Tensor& out, const Tensor& in,
               const Split& rows, When when) const;
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
  struct Elements {
    std::vector<int64_t> out, in;
  };
  mutable Elements inside_elements_, between_elements_;
};

}  // namespace sextant

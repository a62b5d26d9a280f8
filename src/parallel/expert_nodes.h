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
  using Meanwhile = ExpertRanks::Meanwhile;
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
  // The copies of tokens for this rank's experts, [arrived, width]: ExpertRanks::dispatch of the
  // rows of x.   x: [tokens, width]   gates: [tokens, chosen]
  Tensor dispatch(Stream& stream, const Tensor& x, const Tensor& gates, const Slots& slots,
                  std::span<const int64_t> sizes, Meanwhile meanwhile = nullptr) const;
  // Brings the outputs of experts, [arrived, width], to the ranks that passed on the copies.
  void return_outputs(Stream& stream, Tensor rows, const Slots& slots,
                      std::span<const int64_t> sizes, int64_t pairs) const;
  // y[t] = sum over its choices of gate * output.   y: [tokens, width]
  void combine(Stream& stream, Tensor& y, const Slots& slots, std::span<const int64_t> sizes,
               Meanwhile meanwhile = nullptr) const;
  // The gradients of outputs for this rank's experts, [arrived, width], and of the gates. Frees the
  // outputs.   dy: [tokens, width]   dgates: [tokens, chosen]
  Tensor dispatch_backward(Stream& stream, Tensor& dgates, const Tensor& dy, const Slots& slots,
                           std::span<const int64_t> sizes, Meanwhile meanwhile = nullptr) const;
  // dx[t] = sum over its choices of the gradients of their rows.
  //   rows: [arrived, width]   dx: [tokens, width]
  void combine_backward(Stream& stream, Tensor& dx, Tensor rows, const Slots& slots,
                        std::span<const int64_t> sizes, Meanwhile meanwhile = nullptr) const;

 private:
  // Rows sent to and received from each rank of a level.
  struct Split {
    std::span<const int64_t> out, in;
  };
  Split tokens_between(std::span<const int64_t> sizes) const;  // that cross
  Split pairs_inside(std::span<const int64_t> sizes) const;
  // Rows of tokens to the nodes that they cross to, in the order in which they come there; and
  // their sums over nodes on the way back.
  Tensor cross(Stream& stream, const Tensor& x, const Slots& slots, std::span<const int64_t> sizes,
               Meanwhile meanwhile = nullptr) const;
  void cross_back(Stream& stream, Tensor& sum, const Tensor& rows, const Slots& slots,
                  std::span<const int64_t> sizes, Meanwhile meanwhile = nullptr) const;
  // Copies to the ranks of their experts, and back.
  Tensor pass_on(Stream& stream, Tensor rows, const Slots& slots, std::span<const int64_t> sizes,
                 int64_t tokens) const;
  Tensor pass_back(Stream& stream, Tensor rows, const Slots& slots, std::span<const int64_t> sizes,
                   int64_t tokens) const;
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

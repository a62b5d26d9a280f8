#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/range.h"
#include "comm/communicator.h"

namespace sextant {

// The expert-parallel group, as one rank sees it: each rank has some of the experts of a layer and
// its own tokens. A row is one choice of one token; rows go to the rank of their expert and back.
//   counts: i32 [ranks, experts], rows of each rank for each expert
//   pairs:  rows of this rank, tokens * chosen
// How many rows arrive is known only when they are routed, so memory for them is a fixed number of
// rows (capacity). On a phantom device routing is balanced.
class ExpertRanks {
 public:
  struct Sizes {
    int64_t experts = 1, chosen = 1;
    // Capacity as a multiple of the rows under balanced routing; 0: for the worst case.
    double capacity = 0;
  };
  // `ranks` must outlive it.
  ExpertRanks(Communicator& ranks, const Sizes& sizes);

  int size() const { return ranks_->size(); }
  int rank() const { return ranks_->rank(); }
  bool is_alone() const { return size() == 1; }  // this rank has all experts
  Range own() const;                             // experts of this rank
  int64_t capacity(int64_t pairs) const;         // rows that a rank has memory for

  // All-gather of the counts of the ranks: [experts] -> [ranks, experts].
  Tensor all_gather_counts(Stream& stream, const Tensor& counts) const;
  // Sends rows, sorted by expert, to the experts' ranks: [pairs, width] -> [arrived, width], sorted
  // by (expert, source). Error(Memory), which names the layer, if they are more than the capacity.
  Tensor dispatch(Stream& stream, Tensor rows, const Tensor& counts,
                  const std::string& layer) const;
  // The way back: [arrived, width] -> [pairs, width].
  Tensor give_back(Stream& stream, Tensor rows, const Tensor& counts, int64_t pairs) const;
  // Memory for `rows` arrived rows.
  Tensor arrived(Stream& stream, DType dtype, int64_t rows, int64_t pairs, int64_t width) const;

 private:
  void read(Stream& stream, const Tensor& counts, int64_t pairs) const;
  int64_t set_split_sizes(int64_t width) const;

  Communicator* ranks_;
  Sizes sizes_;
  // Of the call in progress, allocated once.
  mutable std::vector<int32_t> counts_;
  mutable std::vector<int64_t> outgoing_, incoming_;  // elements by rank
};

}  // namespace sextant

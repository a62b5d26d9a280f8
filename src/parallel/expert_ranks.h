#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/range.h"
#include "fault/inject.h"
#include "mesh/mesh.h"
#include "parallel/rows_in_flight.h"

namespace sextant {

// The ranks that have the experts of a layer between them, as one of them sees it. Each has its own
// tokens; the ranks of ep have different experts, those of etp (expert tensor parallel) parts of
// the same ones. A row is one choice of one token. Rows go to a rank that has a part of their
// expert and are gathered by all of etp; on the way back the outputs of the parts are summed.
//   counts: i32 [sources, experts], rows of each rank for each expert; ranks in the order of
//           expert_sources
//   pairs:  rows of this rank, tokens * chosen
// How many rows arrive is known only when they are routed, so memory for them is a fixed number of
// rows (capacity). On a phantom device routing is balanced.
class ExpertRanks {
 public:
  struct Sizes {
    int64_t experts = 1, chosen = 1;
    // Capacity as a multiple of the rows under balanced routing; 0: for the worst case.
    double capacity = 0;
    // Capacity of an expert as a multiple of its rows of a unit of tokens under balanced routing,
    // which bounds the worst case; 0: none. A unit lies on `unit_ranks` ranks.
    double factor = 0;
    int64_t unit_ranks = 1;
  };
  // `mesh` must outlive it.
  ExpertRanks(Mesh& mesh, const Sizes& sizes, const Injection& inject = {});

  int size() const { return ep_->size(); }
  int sources() const { return sources_->size(); }  // whose tokens come to this rank
  int source() const { return sources_->rank(); }   // the number of this rank among them
  bool is_alone() const { return sources() == 1; }  // this rank has all experts
  Range own() const;                                // experts of this rank
  int64_t capacity(int64_t pairs) const;            // rows that a rank has memory for
  // Rows of a unit that an expert computes at most, when this rank has `pairs` of them. Needs a
  // factor.
  int64_t capacity_of_expert(int64_t pairs) const;
  bool has_limit() const { return sizes_.factor > 0; }
  const Sizes& sizes() const { return sizes_; }
  // Error(Memory), which names the layer, if more rows arrive than the capacity.
  void check_arrived(int64_t rows, int64_t pairs, const std::string& layer) const;

  // All-gather of the counts of the sources: [experts] -> [sources, experts].
  Tensor all_gather_counts(Stream& stream, const Tensor& counts) const;
  // The rows that this rank sends to each rank of ep, those that it receives from each, and those
  // that each rank of etp receives; none if it is alone. This reads the gathered counts to the
  // host, once for all exchanges of the same rows. Error(Memory), which names the layer, if more
  // rows arrive than the capacity.
  void read_sizes(Stream& stream, std::vector<int64_t>& sizes, const Tensor& counts, int64_t pairs,
                  const std::string& layer) const;
  // Sends rows, sorted by expert, to the experts' ranks: [pairs, width] -> [arrived, width], sorted
  // by (expert, source). Rows of dropped pairs are behind the others and stay. With When::Later the
  // rank can do other work between start and end.
  void start_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& rows,
                      std::span<const int64_t> sizes, When when) const;
  Tensor end_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& counts,
                      int64_t pairs) const;
  // The way back: [arrived, width] -> [pairs, width].
  void start_combine(Stream& stream, RowsInFlight& flight, Tensor rows, const Tensor& counts,
                     std::span<const int64_t> sizes, int64_t pairs, When when) const;
  Tensor end_combine(RowsInFlight& flight) const;
  // Memory for `rows` arrived rows.
  Tensor arrived(Stream& stream, DType dtype, int64_t rows, int64_t pairs, int64_t width) const;

 private:
  void set_split_sizes(RowsInFlight& flight, std::span<const int64_t> sizes, int64_t width) const;
  struct Arrivals {
    int64_t rows = 0;
    Range own;
  };
  Arrivals arrivals(std::span<const int64_t> sizes) const;
  Pending sum_parts(Stream& stream, Tensor& own, const RowsInFlight& flight, const Range& place,
                    When when) const;

  Communicator *ep_, *etp_, *sources_;
  Sizes sizes_;
  Injection inject_;
  mutable std::vector<int32_t> counts_;  // of the call in progress, allocated once
};

}  // namespace sextant

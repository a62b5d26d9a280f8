#include "parallel/expert_ranks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/moe_permute.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {

ExpertRanks::ExpertRanks(Communicator& ranks, const Sizes& sizes) : ranks_(&ranks), sizes_(sizes) {
  SXT_CHECK(sizes_.experts % size() == 0, Internal, sizes_.experts, " experts on ", size(),
            " ranks");
  counts_.resize(static_cast<size_t>(size() * sizes_.experts));
  outgoing_.resize(static_cast<size_t>(size()));
  incoming_.resize(static_cast<size_t>(size()));
}

Range ExpertRanks::own() const {
  return even_part(sizes_.experts, size(), rank());
}

// In the worst case every token of every rank chooses as many of this rank's experts as it can.
int64_t ExpertRanks::capacity(int64_t pairs) const {
  if (is_alone()) return pairs;
  const int64_t worst = size() * (pairs / sizes_.chosen) * std::min(sizes_.chosen, own().size());
  if (sizes_.capacity == 0) return worst;
  const double wanted = std::ceil(sizes_.capacity * static_cast<double>(pairs));
  return std::min(worst, static_cast<int64_t>(wanted));
}

Tensor ExpertRanks::all_gather_counts(Stream& stream, const Tensor& counts) const {
  if (is_alone()) return counts.view({1, sizes_.experts});
  Tensor all = allocate_activation(stream, DType::I32, {size(), sizes_.experts});
  ranks_->all_gather(stream, all, counts);
  return all;
}

// A phantom rank sends and gets the same number of rows from every rank, as far as they divide.
void ExpertRanks::read(Stream& stream, const Tensor& counts, int64_t pairs) const {
  copy_to_host<int32_t>(stream, counts_, counts);
  if (!stream.is_phantom()) return;
  const int64_t each = sizes_.experts / size();
  std::ranges::fill(counts_, 0);
  for (int rank = 0; rank < size(); ++rank) {
    const auto rows = static_cast<int32_t>(even_part(pairs, size(), rank).size());
    counts_[static_cast<size_t>(ranks_->rank() * sizes_.experts + rank * each)] = rows;
    counts_[static_cast<size_t>(rank * sizes_.experts + ranks_->rank() * each)] = rows;
  }
}

// Elements that this rank sends to each rank and gets from it; returns the rows that it gets.
int64_t ExpertRanks::set_split_sizes(int64_t width) const {
  const int64_t each = sizes_.experts / size();
  const auto rows = [&](int from, int to) {
    const auto first = counts_.begin() + from * sizes_.experts + to * each;
    int64_t sum = 0;
    for (auto count = first; count != first + each; ++count) sum += *count;
    return sum;
  };
  int64_t arrived = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const int64_t in = rows(rank, ranks_->rank());
    outgoing_[static_cast<size_t>(rank)] = rows(ranks_->rank(), rank) * width;
    incoming_[static_cast<size_t>(rank)] = in * width;
    arrived += in;
  }
  return arrived;
}

Tensor ExpertRanks::arrived(Stream& stream, DType dtype, int64_t rows, int64_t pairs,
                            int64_t width) const {
  return allocate_activation(stream, dtype, {capacity(pairs), width}).slice(0, rows);
}

Tensor ExpertRanks::dispatch(Stream& stream, Tensor rows, const Tensor& counts,
                             const std::string& layer) const {
  if (is_alone()) return rows;
  const int64_t pairs = rows.dim(0), width = rows.dim(1);
  read(stream, counts, pairs);
  const int64_t here = set_split_sizes(width);
  SXT_CHECK(here <= capacity(pairs), Memory, layer, ": ", here, " rows for experts ", own().begin,
            " to ", own().end - 1, " of rank ", ranks_->world_rank(rank()),
            ", which has memory for ", capacity(pairs), " (balanced: ", pairs,
            "); a larger memory.experts, or train.balance_loss, would do");
  Tensor by_source = arrived(stream, rows.dtype(), here, pairs, width);
  ranks_->all_to_all(stream, by_source, rows, When::Now, SplitSizes(outgoing_),
                     SplitSizes(incoming_));
  rows = Tensor();
  Tensor by_expert = arrived(stream, by_source.dtype(), here, pairs, width);
  moe_group(stream, by_expert, by_source, counts, own());
  return by_expert;
}

Tensor ExpertRanks::give_back(Stream& stream, Tensor rows, const Tensor& counts,
                              int64_t pairs) const {
  if (is_alone()) return rows;
  const int64_t width = rows.dim(1);
  read(stream, counts, pairs);
  const int64_t here = set_split_sizes(width);
  Tensor by_source = arrived(stream, rows.dtype(), here, pairs, width);
  moe_ungroup(stream, by_source, rows, counts, own());
  rows = Tensor();
  Tensor back = allocate_activation(stream, by_source, {pairs, width});
  ranks_->all_to_all(stream, back, by_source, When::Now, SplitSizes(incoming_),
                     SplitSizes(outgoing_));
  return back;
}

}  // namespace sextant

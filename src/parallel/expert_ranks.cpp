#include "parallel/expert_ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/moe_permute.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

template <class T>
int64_t sum_of(std::span<T> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

}  // namespace

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

// In the worst case every token of every rank chooses as many of this rank's experts as it can, or
// every unit fills all of them.
int64_t ExpertRanks::capacity(int64_t pairs) const {
  if (is_alone()) return pairs;
  int64_t worst = size() * (pairs / sizes_.chosen) * std::min(sizes_.chosen, own().size());
  if (has_limit()) {
    const int64_t units = std::max<int64_t>(1, size() / sizes_.unit_ranks);
    worst = std::min(worst, units * own().size() * capacity_of_expert(pairs));
  }
  if (sizes_.capacity == 0) return worst;
  const double wanted = std::ceil(sizes_.capacity * static_cast<double>(pairs));
  return std::min(worst, static_cast<int64_t>(wanted));
}

int64_t ExpertRanks::capacity_of_expert(int64_t pairs) const {
  const auto balanced = static_cast<double>(pairs * sizes_.unit_ranks);
  return static_cast<int64_t>(
      std::ceil(sizes_.factor * balanced / static_cast<double>(sizes_.experts)));
}

Tensor ExpertRanks::all_gather_counts(Stream& stream, const Tensor& counts) const {
  if (is_alone()) return counts.view({1, sizes_.experts});
  Tensor all = allocate_activation(stream, DType::I32, {size(), sizes_.experts});
  ranks_->all_gather(stream, all, counts);
  return all;
}

// A phantom rank sends and gets the same number of rows from every rank, as far as they divide.
void ExpertRanks::read_sizes(Stream& stream, std::vector<int64_t>& sizes, const Tensor& counts,
                             int64_t pairs, const std::string& layer) const {
  sizes.clear();
  if (is_alone()) return;
  copy_to_host<int32_t>(stream, counts_, counts);
  const int64_t each = sizes_.experts / size();
  const auto rows = [&](int from, int to) {
    if (stream.is_phantom()) return even_part(pairs, size(), from == rank() ? to : from).size();
    const auto first = counts_.begin() + from * sizes_.experts + to * each;
    return sum_of(std::span(first, first + each));
  };
  for (int to = 0; to < size(); ++to) sizes.push_back(rows(rank(), to));
  for (int from = 0; from < size(); ++from) sizes.push_back(rows(from, rank()));
  const int64_t here = sum_of(std::span(sizes).subspan(static_cast<size_t>(size())));
  SXT_CHECK(here <= capacity(pairs), Memory, layer, ": ", here, " rows for experts ", own().begin,
            " to ", own().end - 1, " of rank ", ranks_->world_rank(rank()),
            ", which has memory for ", capacity(pairs), " (balanced: ", pairs,
            "); a larger memory.experts, or train.balance_loss, would do");
}

// Elements that this rank sends to each rank and gets from it.
void ExpertRanks::set_split_sizes(std::span<const int64_t> sizes, int64_t width) const {
  const auto ranks = static_cast<size_t>(size());
  SXT_CHECK(sizes.size() == 2 * ranks, Internal, sizes.size(), " sizes of rows for ", ranks,
            " ranks");
  for (size_t rank = 0; rank < ranks; ++rank) {
    outgoing_[rank] = sizes[rank] * width;
    incoming_[rank] = sizes[ranks + rank] * width;
  }
}

Tensor ExpertRanks::arrived(Stream& stream, DType dtype, int64_t rows, int64_t pairs,
                            int64_t width) const {
  return allocate_activation(stream, dtype, {capacity(pairs), width}).slice(0, rows);
}

Tensor ExpertRanks::dispatch(Stream& stream, Tensor rows, const Tensor& counts,
                             std::span<const int64_t> sizes, Meanwhile meanwhile) const {
  if (is_alone()) {
    if (meanwhile != nullptr) (*meanwhile)();
    return rows;
  }
  const int64_t pairs = rows.dim(0), width = rows.dim(1);
  set_split_sizes(sizes, width);
  const int64_t here = sum_of(sizes.subspan(static_cast<size_t>(size())));
  Tensor by_source = arrived(stream, rows.dtype(), here, pairs, width);
  const int64_t sent = sum_of(sizes.first(static_cast<size_t>(size())));
  {
    Pending moving = ranks_->all_to_all(stream, by_source, rows.slice(0, sent),
                                        meanwhile != nullptr ? When::Later : When::Now,
                                        SplitSizes(outgoing_), SplitSizes(incoming_));
    if (meanwhile != nullptr) (*meanwhile)();
    moving.wait();
  }
  rows = Tensor();
  Tensor by_expert = arrived(stream, by_source.dtype(), here, pairs, width);
  moe_group(stream, by_expert, by_source, counts, own());
  return by_expert;
}

Tensor ExpertRanks::give_back(Stream& stream, Tensor rows, const Tensor& counts,
                              std::span<const int64_t> sizes, int64_t pairs,
                              Meanwhile meanwhile) const {
  if (is_alone()) {
    if (meanwhile != nullptr) (*meanwhile)();
    return rows;
  }
  const int64_t here = rows.dim(0), width = rows.dim(1);
  set_split_sizes(sizes, width);
  const int64_t sent = sum_of(sizes.first(static_cast<size_t>(size())));
  Tensor by_source = arrived(stream, rows.dtype(), here, pairs, width);
  moe_ungroup(stream, by_source, rows, counts, own());
  rows = Tensor();
  Tensor back = allocate_activation(stream, by_source, {pairs, width});
  Tensor filled = back.slice(0, sent);
  Pending moving =
      ranks_->all_to_all(stream, filled, by_source, meanwhile != nullptr ? When::Later : When::Now,
                         SplitSizes(incoming_), SplitSizes(outgoing_));
  if (meanwhile != nullptr) (*meanwhile)();
  moving.wait();
  return back;
}

}  // namespace sextant

#include "parallel/expert_ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

ExpertRanks::ExpertRanks(Mesh& mesh, const Sizes& sizes, const Injection& inject)
    : ep_(&mesh.along(ExpertAxis::Ep)),
      etp_(&mesh.along(ExpertAxis::Etp)),
      sources_(&mesh.expert_sources()),
      sizes_(sizes),
      inject_(inject) {
  SXT_CHECK(sizes_.experts % size() == 0, Internal, sizes_.experts, " experts on ", size(),
            " ranks");
  counts_.resize(static_cast<size_t>(sources() * sizes_.experts));
}

Range ExpertRanks::own() const {
  return even_part(sizes_.experts, size(), ep_->rank());
}

// In the worst case every token of every source chooses as many of this rank's experts as it can,
// or every unit fills all of them. Sources are consecutive ranks, and so are the ranks of a unit:
// each kind of block begins at a multiple of its size.
int64_t ExpertRanks::capacity(int64_t pairs) const {
  if (is_alone()) return pairs;
  int64_t worst = sources() * (pairs / sizes_.chosen) * std::min(sizes_.chosen, own().size());
  if (has_limit()) {
    const int64_t shared = std::gcd(int64_t{sources()}, sizes_.unit_ranks);
    const int64_t units = (sources() + sizes_.unit_ranks - shared) / sizes_.unit_ranks;
    worst = std::min(worst, units * own().size() * capacity_of_expert(pairs));
  }
  if (sizes_.capacity == 0) return worst;
  const double wanted = std::ceil(sizes_.capacity * static_cast<double>(pairs * etp_->size()));
  return std::min(worst, static_cast<int64_t>(wanted));
}

int64_t ExpertRanks::capacity_of_expert(int64_t pairs) const {
  const auto balanced = static_cast<double>(pairs * sizes_.unit_ranks);
  return static_cast<int64_t>(
      std::ceil(sizes_.factor * balanced / static_cast<double>(sizes_.experts)));
}

Tensor ExpertRanks::all_gather_counts(Stream& stream, const Tensor& counts) const {
  if (is_alone()) return counts.view({1, sizes_.experts});
  Tensor all = allocate_activation(stream, DType::I32, {sources(), sizes_.experts});
  sources_->all_gather(stream, all, counts);
  return all;
}

// A phantom rank sends and gets the same number of rows from every rank, as far as they divide.
void ExpertRanks::read_sizes(Stream& stream, std::vector<int64_t>& sizes, const Tensor& counts,
                             int64_t pairs, const std::string& layer) const {
  sizes.clear();
  if (is_alone()) return;
  copy_to_host<int32_t>(stream, counts_, counts);
  const int64_t each = sizes_.experts / size();
  const auto rows = [&](int source, int to) {
    const auto first = counts_.begin() + source * sizes_.experts + to * each;
    return sum_of(std::span(first, first + each));
  };
  const bool is_phantom = stream.is_phantom();
  const int rank = ep_->rank(), first = source() - rank;  // first: with this rank's place in etp
  for (int to = 0; to < size(); ++to)
    sizes.push_back(is_phantom ? even_part(pairs, size(), to).size() : rows(source(), to));
  for (int from = 0; from < size(); ++from)
    sizes.push_back(is_phantom ? even_part(pairs, size(), from).size() : rows(first + from, rank));
  int64_t here = 0;
  for (int place = 0; place < etp_->size(); ++place) {
    int64_t arrived = is_phantom ? pairs : 0;
    for (int from = 0; from < size() && !is_phantom; ++from)
      arrived += rows(place * size() + from, rank);
    sizes.push_back(arrived);
    here += arrived;
  }
  check_arrived(here, pairs, layer);
}

void ExpertRanks::check_arrived(int64_t rows, int64_t pairs, const std::string& layer) const {
  SXT_CHECK(rows <= capacity(pairs), Memory, layer, ": ", rows, " rows for experts ", own().begin,
            " to ", own().end - 1, " of rank ", sources_->world_rank(source()),
            ", which has memory for ", capacity(pairs), " (balanced: ", pairs * etp_->size(),
            "); a larger memory.experts, or train.balance_loss, would do");
}

// Elements that this rank sends to each rank of ep and gets from it, and that each rank of etp
// gets.
void ExpertRanks::set_split_sizes(RowsInFlight& flight, std::span<const int64_t> sizes,
                                  int64_t width) const {
  const auto ranks = static_cast<size_t>(size()), parts = static_cast<size_t>(etp_->size());
  SXT_CHECK(sizes.size() == 2 * ranks + parts, Internal, sizes.size(), " sizes of rows for ", ranks,
            " ranks of ep and ", parts, " of etp");
  const auto scale = [&](std::vector<int64_t>& elements, std::span<const int64_t> rows) {
    elements.assign(rows.begin(), rows.end());
    for (int64_t& count : elements) count *= width;
  };
  scale(flight.sent, sizes.first(ranks));
  scale(flight.received, sizes.subspan(ranks, ranks));
  scale(flight.gathered, sizes.last(parts));
}

Tensor ExpertRanks::arrived(Stream& stream, DType dtype, int64_t rows, int64_t pairs,
                            int64_t width) const {
  return allocate_activation(stream, dtype, {capacity(pairs), width}).slice(0, rows);
}

// Rows of all ranks of etp, and which of them this rank exchanges with those of ep.
ExpertRanks::Arrivals ExpertRanks::arrivals(std::span<const int64_t> sizes) const {
  const auto here = sizes.last(static_cast<size_t>(etp_->size()));
  const int64_t begin = sum_of(here.first(static_cast<size_t>(etp_->rank())));
  return {sum_of(here), {begin, begin + here[static_cast<size_t>(etp_->rank())]}};
}

void ExpertRanks::start_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& rows,
                                 std::span<const int64_t> sizes, When when) const {
  flight.from = rows;
  if (is_alone()) return;
  const int64_t pairs = rows.dim(0), width = rows.dim(1);
  set_split_sizes(flight, sizes, width);
  const Arrivals here = arrivals(sizes);
  flight.to = arrived(stream, rows.dtype(), here.rows, pairs, width);
  Tensor own = flight.to.slice(here.own);
  const Tensor sent = rows.slice(0, sum_of(sizes.first(static_cast<size_t>(size()))));
  if (size() > 1)
    flight.exchange = ep_->all_to_all(stream, own, sent, when, SplitSizes(flight.sent),
                                      SplitSizes(flight.received));
  if (etp_->size() == 1) return;
  etp_->order_after(flight.exchange);
  flight.of_parts = etp_->all_gather(stream, flight.to, size() > 1 ? own : sent, when,
                                     SplitSizes(flight.gathered));
}

Tensor ExpertRanks::end_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& counts,
                                 int64_t pairs) const {
  if (is_alone()) return std::exchange(flight.from, Tensor());
  flight.wait();
  const Tensor by_source = std::exchange(flight.to, Tensor());
  Tensor by_expert = arrived(stream, by_source.dtype(), by_source.dim(0), pairs, by_source.dim(1));
  moe_group(stream, by_expert, by_source, counts, own());
  return by_expert;
}

// With InjectionKind::DropExpertSum this rank's parts of the experts count alone.
Pending ExpertRanks::sum_parts(Stream& stream, Tensor& own, const RowsInFlight& flight,
                               const Range& place, When when) const {
  if (!inject_.hits(InjectionKind::DropExpertSum, sources_->world_rank(source())))
    return etp_->reduce_scatter(stream, own, flight.from, ReduceOp::Sum, when, Into::Replace,
                                SplitSizes(flight.gathered));
  if (size() == 1) copy(stream, own, flight.from.slice(place));
  return {};
}

void ExpertRanks::start_combine(Stream& stream, RowsInFlight& flight, Tensor rows,
                                const Tensor& counts, std::span<const int64_t> sizes, int64_t pairs,
                                When when) const {
  if (is_alone()) {
    flight.to = std::move(rows);
    return;
  }
  const int64_t here = rows.dim(0), width = rows.dim(1);
  set_split_sizes(flight, sizes, width);
  const Range place = arrivals(sizes).own;
  flight.from = arrived(stream, rows.dtype(), here, pairs, width);
  moe_ungroup(stream, flight.from, rows, counts, this->own());
  rows = Tensor();
  flight.to = allocate_activation(stream, flight.from, {pairs, width});
  Tensor filled = flight.to.slice(0, sum_of(sizes.first(static_cast<size_t>(size()))));
  Tensor own = size() > 1 ? flight.from.slice(place) : filled;
  if (etp_->size() > 1) flight.of_parts = sum_parts(stream, own, flight, place, when);
  if (size() == 1) return;
  ep_->order_after(flight.of_parts);
  flight.exchange = ep_->all_to_all(stream, filled, own, when, SplitSizes(flight.received),
                                    SplitSizes(flight.sent));
}

Tensor ExpertRanks::end_combine(RowsInFlight& flight) const {
  flight.wait();
  return std::exchange(flight.to, Tensor());
}

}  // namespace sextant

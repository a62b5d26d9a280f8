#include "parallel/expert_nodes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/moe_capacity.h"
#include "ops/moe_nodes.h"
#include "ops/moe_permute.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

int64_t total_of(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

}  // namespace

ExpertNodes::ExpertNodes(Communicator& ranks, const ExpertRanks& experts, int ranks_of_node)
    : experts_(&experts) {
  SXT_CHECK(ranks.size() % ranks_of_node == 0, Internal, "nodes of ", ranks_of_node, " of ",
            ranks.size(), " ranks");
  const int rank = ranks.rank();
  inside_ = ranks.subgroup(
      ranks_where(ranks.size(),
                  [&](int other) { return other / ranks_of_node == rank / ranks_of_node; }),
      "ep inside", "ep_inside");
  between_ = ranks.subgroup(
      ranks_where(ranks.size(),
                  [&](int other) { return other % ranks_of_node == rank % ranks_of_node; }),
      "ep between", "ep_between");
  const auto all = static_cast<size_t>(ranks.size()),
             across = static_cast<size_t>(between_->size());
  counts_.resize(all * static_cast<size_t>(experts.sizes().experts));
  crossing_.resize(across * across);
}

Range ExpertNodes::experts_of_node() const {
  return even_part(experts_->sizes().experts, between_->size(), between_->rank());
}

// The sizes are, one after the other: tokens to and from each node, pairs to and from each rank of
// this node.
ExpertNodes::Split ExpertNodes::tokens_between(std::span<const int64_t> sizes) const {
  const auto nodes = static_cast<size_t>(between_->size());
  return {sizes.first(nodes), sizes.subspan(nodes, nodes)};
}

ExpertNodes::Split ExpertNodes::pairs_inside(std::span<const int64_t> sizes) const {
  const auto nodes = static_cast<size_t>(between_->size());
  const auto ranks = static_cast<size_t>(inside_->size());
  return {sizes.subspan(2 * nodes, ranks), sizes.subspan(2 * nodes + ranks, ranks)};
}

// A limit of memory is a multiple of the balanced pairs.
int64_t ExpertNodes::most(int64_t worst, int64_t tokens) const {
  const ExpertRanks::Sizes& sizes = experts_->sizes();
  if (sizes.capacity == 0) return worst;
  const auto balanced = static_cast<double>(tokens * sizes.chosen);
  return std::min(worst, static_cast<int64_t>(std::ceil(sizes.capacity * balanced)));
}

Tensor ExpertNodes::leaving(Stream& stream, DType dtype, int64_t tokens, int64_t width) const {
  return allocate_activation(stream, dtype,
                             {tokens * std::min(experts_->sizes().chosen, nodes()), width});
}

Tensor ExpertNodes::coming(Stream& stream, DType dtype, int64_t rows, int64_t tokens,
                           int64_t width) const {
  return allocate_activation(stream, dtype, {most(nodes() * tokens, tokens), width}).slice(0, rows);
}

Tensor ExpertNodes::copies(Stream& stream, DType dtype, int64_t rows, int64_t tokens,
                           int64_t width) const {
  const int64_t each = std::min(experts_->sizes().chosen, experts_of_node().size());
  return allocate_activation(stream, dtype, {most(nodes() * tokens * each, tokens), width})
      .slice(0, rows);
}

void ExpertNodes::set_elements(RowsInFlight& flight, const Split& rows, int64_t width) {
  flight.sent.assign(rows.out.begin(), rows.out.end());
  flight.received.assign(rows.in.begin(), rows.in.end());
  for (std::vector<int64_t>* elements : {&flight.sent, &flight.received})
    for (int64_t& count : *elements) count *= width;
}

void ExpertNodes::start_move(Stream& stream, RowsInFlight& flight, const Split& rows,
                             When when) const {
  set_elements(flight, rows, flight.from.dim(1));
  Tensor to = flight.to.slice(0, total_of(rows.in));
  flight.exchange = between_->all_to_all(stream, to, flight.from.slice(0, total_of(rows.out)), when,
                                         SplitSizes(flight.sent), SplitSizes(flight.received));
}

void ExpertNodes::move(Stream& stream, Communicator& ranks, Tensor& to, const Tensor& from,
                       const Split& rows) const {
  set_elements(at_once_, rows, from.dim(1));
  ranks
      .all_to_all(stream, to, from, When::Now, SplitSizes(at_once_.sent),
                  SplitSizes(at_once_.received))
      .wait();
}

// On a phantom device: what Router::Balanced gives on every rank if the choices divide by the
// experts. If not, each source begins at its own experts, so that no rank gets more than the
// balanced number.
void ExpertNodes::assume_balance(int64_t tokens) const {
  if (tokens == balanced_.tokens) {
    counts_ = balanced_.counts;
    crossing_ = balanced_.crossing;
    return;
  }
  const int64_t experts = experts_->sizes().experts, chosen = experts_->sizes().chosen;
  const int64_t pairs = tokens * chosen, rest = pairs % experts;
  const int64_t apart = rest == 0 ? 0 : experts_->own().size();  // of the first experts of sources
  for (size_t i = 0; i < counts_.size(); ++i) {
    const int64_t source = static_cast<int64_t>(i) / experts;
    const int64_t place = (static_cast<int64_t>(i) + experts - source * apart % experts) % experts;
    counts_[i] = static_cast<int32_t>(pairs / experts + (place < rest ? 1 : 0));
  }
  const auto across = static_cast<size_t>(nodes());
  std::fill(crossing_.begin(), crossing_.end(), 0);
  std::vector<int64_t> last(across, -1);  // the last token that crossed
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t expert = (inside_->rank() * apart + pair) % experts;
    const auto node = static_cast<size_t>(expert / (experts / nodes()));
    if (std::exchange(last[node], pair / chosen) == pair / chosen) continue;
    // From the other nodes alike, as many nodes further.
    for (size_t from = 0; from < across; ++from)
      ++crossing_[from * across + (rest == 0 ? node : (node + from) % across)];
  }
  balanced_ = {tokens, counts_, crossing_};
}

void ExpertNodes::find_sizes(std::vector<int64_t>& sizes) const {
  const int64_t experts = experts_->sizes().experts;
  const int ranks = inside_->size(), across = between_->size();
  const int place = inside_->rank(), node = between_->rank();
  // Rows of a rank for the experts of another one, or of all ranks of a node.
  const auto pairs = [&](int from, int first, int count) {
    const int64_t each = experts / (int64_t{ranks} * across);
    const auto begin = counts_.begin() + from * experts + first * each;
    return std::accumulate(begin, begin + count * each, int64_t{0});
  };
  const auto tokens = [&](int from, int to) {
    return int64_t{crossing_[static_cast<size_t>(from * across + to)]};
  };
  sizes.clear();
  for (int to = 0; to < across; ++to) sizes.push_back(tokens(node, to));
  for (int from = 0; from < across; ++from) sizes.push_back(tokens(from, node));
  // From one rank of this node to another, over all nodes.
  const auto passed = [&](int from, int to) {
    int64_t sum = 0;
    for (int other = 0; other < across; ++other)
      sum += pairs(other * ranks + from, node * ranks + to, 1);
    return sum;
  };
  for (int to = 0; to < ranks; ++to) sizes.push_back(passed(place, to));
  for (int from = 0; from < ranks; ++from) sizes.push_back(passed(from, place));
}

void ExpertNodes::route(Stream& stream, const Slots& slots, std::vector<int64_t>& sizes,
                        const Tensor& choice, const Tensor& counts,
                        const std::string& layer) const {
  const int64_t tokens = choice.dim(0), chosen = choice.dim(1), pairs = choice.elements();
  const int64_t experts = experts_->sizes().experts;
  Tensor nodes = allocate_activation(stream, DType::I32, {tokens, this->nodes()});
  moe_nodes(stream, nodes, choice, experts);
  Tensor own = allocate_activation(stream, DType::I32, {this->nodes()});
  moe_count(stream, own, nodes);
  slots.crossing = allocate_activation(stream, DType::I32, {tokens * this->nodes()});
  moe_places(stream, slots.crossing, nodes, own);
  Tensor all = allocate_activation(stream, DType::I32, {this->nodes(), this->nodes()});
  between_->all_gather(stream, all, own);
  copy_to_host_later<int32_t>(stream, counts_, counts);
  copy_to_host_later<int32_t>(stream, crossing_, all);
  stream.synchronize();
  if (stream.is_phantom()) assume_balance(tokens);
  find_sizes(sizes);
  const Split across = tokens_between(sizes), inside = pairs_inside(sizes);
  const int64_t came = total_of(across.in), copied = total_of(inside.out);
  experts_->check_arrived(total_of(inside.in), pairs, layer);
  const Range here = experts_of_node();
  const int64_t room = most(this->nodes() * tokens * std::min(chosen, here.size()), tokens);
  SXT_CHECK(copied <= room && came <= most(this->nodes() * tokens, tokens), Memory, layer, ": ",
            copied, " rows for experts ", here.begin, " to ", here.end - 1,
            " pass through a rank of their node, which has memory for ", room,
            " (balanced: ", pairs, "); a larger memory.experts, or train.balance_loss, would do");

  Tensor left = leaving(stream, DType::I32, tokens, chosen);
  moe_copy_rows(stream, left, choice, slots.crossing, {});
  Tensor choices = coming(stream, DType::I32, came, tokens, chosen);
  move(stream, *between_, choices, left.slice(0, total_of(across.out)), across);
  Tensor local = coming(stream, DType::I32, came, tokens, chosen);
  moe_local_choice(stream, local, choices, here);
  Tensor local_counts = allocate_activation(stream, DType::I32, {here.size()});
  moe_count(stream, local_counts, local);
  slots.local = coming(stream, DType::I32, came, tokens, chosen).view({came * chosen});
  moe_places(stream, slots.local, local, local_counts);
  slots.counts = allocate_activation(stream, DType::I32,
                                     {inside_->size(), experts_->own().size() * this->nodes()});
  moe_node_counts(stream, slots.counts, counts, experts_->own());
}

void ExpertNodes::start_cross(Stream& stream, RowsInFlight& flight, const Tensor& x,
                              const Slots& slots, std::span<const int64_t> sizes, When when) const {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  const Split across = tokens_between(sizes);
  flight.from = leaving(stream, x.dtype(), tokens, width);
  moe_copy_rows(stream, flight.from, x, slots.crossing, {});
  flight.to = coming(stream, x.dtype(), total_of(across.in), tokens, width);
  start_move(stream, flight, across, when);
}

Tensor ExpertNodes::end_cross(RowsInFlight& flight) const {
  flight.wait();
  return std::exchange(flight.to, Tensor());
}

void ExpertNodes::start_cross_back(Stream& stream, RowsInFlight& flight, Tensor rows,
                                   const Slots& slots, std::span<const int64_t> sizes,
                                   When when) const {
  const Split across = tokens_between(sizes);
  flight.to = leaving(stream, rows.dtype(), tokens_of(slots), rows.dim(1));
  flight.from = std::move(rows);
  start_move(stream, flight, {across.in, across.out}, when);
}

void ExpertNodes::end_cross_back(Stream& stream, RowsInFlight& flight, Tensor& sum,
                                 const Slots& slots) const {
  flight.wait();
  moe_permute_backward(stream, sum, std::exchange(flight.to, Tensor()), slots.crossing);
}

Tensor ExpertNodes::pass_on(Stream& stream, Tensor rows, const Slots& slots,
                            std::span<const int64_t> sizes) const {
  const Split inside = pairs_inside(sizes);
  const int64_t here = total_of(inside.in), width = rows.dim(1);
  const int64_t pairs = tokens_of(slots) * experts_->sizes().chosen;
  Tensor by_rank = experts_->arrived(stream, rows.dtype(), here, pairs, width);
  move(stream, *inside_, by_rank, rows, inside);
  rows = Tensor();
  Tensor by_expert = experts_->arrived(stream, by_rank.dtype(), here, pairs, width);
  moe_group(stream, by_expert, by_rank, slots.counts, {0, slots.counts.dim(1)});
  return by_expert;
}

Tensor ExpertNodes::pass_back(Stream& stream, Tensor rows, const Slots& slots,
                              std::span<const int64_t> sizes) const {
  const Split inside = pairs_inside(sizes);
  const int64_t here = rows.dim(0), width = rows.dim(1), tokens = tokens_of(slots);
  const int64_t pairs = tokens * experts_->sizes().chosen;
  Tensor by_rank = experts_->arrived(stream, rows.dtype(), here, pairs, width);
  moe_ungroup(stream, by_rank, rows, slots.counts, {0, slots.counts.dim(1)});
  rows = Tensor();
  Tensor back = copies(stream, by_rank.dtype(), total_of(inside.out), tokens, width);
  move(stream, *inside_, back, by_rank, {inside.in, inside.out});
  return back;
}

void ExpertNodes::start_dispatch(Stream& stream, RowsInFlight& flight, const Tensor& x,
                                 const Tensor& gates, const Slots& slots,
                                 std::span<const int64_t> sizes, When when) const {
  start_cross(stream, flight, gates, slots, sizes, When::Now);
  slots.gates = end_cross(flight);
  start_cross(stream, flight, x, slots, sizes, when);
}

Tensor ExpertNodes::end_dispatch(Stream& stream, RowsInFlight& flight, const Slots& slots,
                                 std::span<const int64_t> sizes) const {
  Tensor there = end_cross(flight);
  Tensor passed = copies(stream, there.dtype(), total_of(pairs_inside(sizes).out), tokens_of(slots),
                         there.dim(1));
  moe_copy_rows(stream, passed, there, slots.local, {});
  there = Tensor();
  return pass_on(stream, std::move(passed), slots, sizes);
}

void ExpertNodes::return_outputs(Stream& stream, Tensor rows, const Slots& slots,
                                 std::span<const int64_t> sizes) const {
  slots.outputs = pass_back(stream, std::move(rows), slots, sizes);
}

void ExpertNodes::start_combine(Stream& stream, RowsInFlight& flight, const Slots& slots,
                                std::span<const int64_t> sizes, When when) const {
  const int64_t came = total_of(tokens_between(sizes).in);
  Tensor sums = coming(stream, slots.outputs.dtype(), came, tokens_of(slots), slots.outputs.dim(1));
  moe_combine(stream, sums, slots.outputs, slots.gates, slots.local);
  start_cross_back(stream, flight, std::move(sums), slots, sizes, when);
}

void ExpertNodes::end_combine(Stream& stream, RowsInFlight& flight, Tensor& y,
                              const Slots& slots) const {
  end_cross_back(stream, flight, y, slots);
}

void ExpertNodes::start_dispatch_backward(Stream& stream, RowsInFlight& flight, const Tensor& dy,
                                          const Slots& slots, std::span<const int64_t> sizes,
                                          When when) const {
  start_cross(stream, flight, dy, slots, sizes, when);
}

Tensor ExpertNodes::end_dispatch_backward(Stream& stream, RowsInFlight& flight, Tensor& dgates,
                                          const Slots& slots,
                                          std::span<const int64_t> sizes) const {
  Tensor drows = std::move(slots.outputs);
  {
    const Tensor there = end_cross(flight);
    Tensor dgates_there =
        coming(stream, dgates.dtype(), there.dim(0), tokens_of(slots), experts_->sizes().chosen);
    moe_combine_backward(stream, drows, dgates_there, there, drows, slots.gates, slots.local);
    start_cross_back(stream, flight, std::move(dgates_there), slots, sizes, When::Now);
  }
  end_cross_back(stream, flight, dgates, slots);
  return pass_on(stream, std::move(drows), slots, sizes);
}

void ExpertNodes::start_combine_backward(Stream& stream, RowsInFlight& flight, Tensor rows,
                                         const Slots& slots, std::span<const int64_t> sizes,
                                         When when) const {
  Tensor drows = pass_back(stream, std::move(rows), slots, sizes);
  Tensor sums = coming(stream, drows.dtype(), total_of(tokens_between(sizes).in), tokens_of(slots),
                       drows.dim(1));
  moe_permute_backward(stream, sums, drows, slots.local);
  drows = Tensor();
  start_cross_back(stream, flight, std::move(sums), slots, sizes, when);
}

void ExpertNodes::end_combine_backward(Stream& stream, RowsInFlight& flight, Tensor& dx,
                                       const Slots& slots) const {
  end_cross_back(stream, flight, dx, slots);
}

}  // namespace sextant

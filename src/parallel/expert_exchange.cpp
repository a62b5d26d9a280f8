#include "parallel/expert_exchange.h"

#include <utility>

#include "ops/moe_permute.h"
#include "parallel/activation.h"

namespace sextant {

ExpertExchange::ExpertExchange(Communicator& ep, const ExpertRanks& experts, int ranks_of_node)
    : experts_(&experts) {
  if (ranks_of_node > 1 && !experts.is_alone()) nodes_.emplace(ep, experts, ranks_of_node);
}

void ExpertExchange::route(Stream& stream, const Slots& slots, const Tensor& choice,
                           const std::string& layer) const {
  if (nodes_) nodes_->route(stream, slots.nodes, slots.sizes, choice, slots.counts, layer);
}

void ExpertExchange::start_dispatch(Stream& stream, const Tensor& x, const Tensor& gates,
                                    const Slots& slots, const std::string& layer, When when) const {
  if (nodes_)
    return nodes_->start_dispatch(stream, slots.flight, x, gates, slots.nodes, slots.sizes, when);
  const int64_t pairs = slots.places.dim(0);
  Tensor rows = allocate_activation(stream, x, {pairs, x.dim(1)});
  moe_permute(stream, rows, x, slots.places);
  experts_->read_sizes(stream, slots.sizes, slots.counts, pairs, layer);
  experts_->start_dispatch(stream, slots.flight, rows, slots.sizes, when);
}

Tensor ExpertExchange::end_dispatch(Stream& stream, const Slots& slots) const {
  if (nodes_) return nodes_->end_dispatch(stream, slots.flight, slots.nodes, slots.sizes);
  return experts_->end_dispatch(stream, slots.flight, slots.counts, slots.places.dim(0));
}

void ExpertExchange::start_combine(Stream& stream, Tensor rows, const Slots& slots, Return what,
                                   When when) const {
  if (!nodes_)
    return experts_->start_combine(stream, slots.flight, std::move(rows), slots.counts, slots.sizes,
                                   slots.places.dim(0), when);
  nodes_->return_outputs(stream, std::move(rows), slots.nodes, slots.sizes);
  if (what == Return::Sums)
    nodes_->start_combine(stream, slots.flight, slots.nodes, slots.sizes, when);
}

void ExpertExchange::end_combine(Stream& stream, Tensor& y, const Tensor& gates,
                                 const Slots& slots) const {
  if (nodes_) return nodes_->end_combine(stream, slots.flight, y, slots.nodes);
  end_outputs(slots);
  moe_combine(stream, y, slots.outputs, gates, slots.places);
}

void ExpertExchange::end_outputs(const Slots& slots) const {
  if (!nodes_) slots.outputs = experts_->end_combine(slots.flight);
}

void ExpertExchange::start_dispatch_backward(Stream& stream, Tensor& dgates, const Tensor& dy,
                                             const Tensor& gates, const Slots& slots,
                                             When when) const {
  if (nodes_)
    return nodes_->start_dispatch_backward(stream, slots.flight, dy, slots.nodes, slots.sizes,
                                           when);
  Tensor drows = std::move(slots.outputs);
  moe_combine_backward(stream, drows, dgates, dy, drows, gates, slots.places);
  experts_->start_dispatch(stream, slots.flight, drows, slots.sizes, when);
}

Tensor ExpertExchange::end_dispatch_backward(Stream& stream, Tensor& dgates,
                                             const Slots& slots) const {
  if (nodes_)
    return nodes_->end_dispatch_backward(stream, slots.flight, dgates, slots.nodes, slots.sizes);
  return end_dispatch(stream, slots);
}

void ExpertExchange::start_combine_backward(Stream& stream, Tensor rows, const Slots& slots,
                                            When when) const {
  if (nodes_)
    return nodes_->start_combine_backward(stream, slots.flight, std::move(rows), slots.nodes,
                                          slots.sizes, when);
  experts_->start_combine(stream, slots.flight, std::move(rows), slots.counts, slots.sizes,
                          slots.places.dim(0), when);
}

void ExpertExchange::end_combine_backward(Stream& stream, Tensor& dx, const Slots& slots) const {
  if (nodes_) return nodes_->end_combine_backward(stream, slots.flight, dx, slots.nodes);
  moe_permute_backward(stream, dx, experts_->end_combine(slots.flight), slots.places);
}

}  // namespace sextant

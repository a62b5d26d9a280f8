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

Tensor ExpertExchange::dispatch(Stream& stream, const Tensor& x, const Tensor& gates,
                                const Slots& slots, const std::string& layer,
                                Meanwhile meanwhile) const {
  if (nodes_) return nodes_->dispatch(stream, x, gates, slots.nodes, slots.sizes, meanwhile);
  const int64_t pairs = slots.places.dim(0);
  Tensor rows = allocate_activation(stream, x, {pairs, x.dim(1)});
  moe_permute(stream, rows, x, slots.places);
  experts_->read_sizes(stream, slots.sizes, slots.counts, pairs, layer);
  return experts_->dispatch(stream, std::move(rows), slots.counts, slots.sizes, meanwhile);
}

void ExpertExchange::return_outputs(Stream& stream, Tensor rows, const Slots& slots,
                                    Meanwhile meanwhile) const {
  const int64_t pairs = slots.places.dim(0);
  if (nodes_)
    nodes_->return_outputs(stream, std::move(rows), slots.nodes, slots.sizes, pairs);
  else
    slots.outputs =
        experts_->combine(stream, std::move(rows), slots.counts, slots.sizes, pairs, meanwhile);
}

void ExpertExchange::combine(Stream& stream, Tensor& y, Tensor rows, const Tensor& gates,
                             const Slots& slots, Meanwhile meanwhile) const {
  return_outputs(stream, std::move(rows), slots, nodes_ ? nullptr : meanwhile);
  if (nodes_)
    nodes_->combine(stream, y, slots.nodes, slots.sizes, meanwhile);
  else
    moe_combine(stream, y, slots.outputs, gates, slots.places);
}

Tensor ExpertExchange::dispatch_backward(Stream& stream, Tensor& dgates, const Tensor& dy,
                                         const Tensor& gates, const Slots& slots,
                                         Meanwhile meanwhile) const {
  if (nodes_)
    return nodes_->dispatch_backward(stream, dgates, dy, slots.nodes, slots.sizes, meanwhile);
  Tensor drows = std::move(slots.outputs);
  moe_combine_backward(stream, drows, dgates, dy, drows, gates, slots.places);
  return experts_->dispatch(stream, std::move(drows), slots.counts, slots.sizes, meanwhile);
}

void ExpertExchange::combine_backward(Stream& stream, Tensor& dx, Tensor rows, const Slots& slots,
                                      Meanwhile meanwhile) const {
  if (nodes_)
    return nodes_->combine_backward(stream, dx, std::move(rows), slots.nodes, slots.sizes,
                                    meanwhile);
  rows = experts_->combine(stream, std::move(rows), slots.counts, slots.sizes, slots.places.dim(0),
                           meanwhile);
  moe_permute_backward(stream, dx, rows, slots.places);
}

}  // namespace sextant

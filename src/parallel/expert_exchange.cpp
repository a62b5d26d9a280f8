#include "parallel/expert_exchange.h"

#include <utility>

#include "ops/moe_permute.h"

namespace sextant {

ExpertExchange::ExpertExchange(Communicator& ep, const ExpertRanks& experts, int ranks_of_node)
    : experts_(&experts) {
  if (ranks_of_node > 1 && !experts.is_alone()) nodes_.emplace(ep, experts, ranks_of_node);
}

void ExpertExchange::route(Stream& stream, const Slots& slots, const Tensor& choice,
                           const std::string& layer) const {
  if (nodes_) nodes_->route(stream, slots.nodes, slots.sizes, choice, slots.counts, layer);
}

Tensor ExpertExchange::dispatch(Stream& stream, const Tensor& x, const Slots& slots,
                                const std::string& layer, Meanwhile meanwhile) const {
  if (nodes_) return nodes_->dispatch(stream, x, {}, slots.nodes, slots.sizes, meanwhile);
  const int64_t pairs = slots.places.dim(0);
  Tensor rows = allocate_activation(stream, x, {pairs, x.dim(1)});
  moe_permute(stream, rows, x, slots.places);
  experts_->read_sizes(stream, slots.sizes, slots.counts, pairs, layer);
  return experts_->dispatch(stream, std::move(rows), slots.counts, slots.sizes, meanwhile);
}

Tensor ExpertExchange::dispatch_gradients(Stream& stream, Tensor rows, const Tensor& dy,
                                          const Tensor& gates, const Slots& slots,
                                          Meanwhile meanwhile) const {
  if (!nodes_)
    return experts_->dispatch(stream, std::move(rows), slots.counts, slots.sizes, meanwhile);
  rows = Tensor();  // made of what crosses
  return nodes_->dispatch(stream, dy, gates, slots.nodes, slots.sizes, meanwhile);
}

Tensor ExpertExchange::combine(Stream& stream, Tensor rows, const Slots& slots,
                               Meanwhile meanwhile) const {
  const int64_t pairs = slots.places.dim(0);
  if (nodes_)
    return nodes_->combine(stream, std::move(rows), slots.counts, slots.nodes, slots.sizes, pairs,
                           meanwhile);
  return experts_->combine(stream, std::move(rows), slots.counts, slots.sizes, pairs, meanwhile);
}

}  // namespace sextant

#include "parallel/flat_group.h"

namespace sextant {

void FlatGroup::bind_values(const Tensor& flat) {
  for (size_t i = 0; i < params.size(); ++i)
    params[i]->value = flat ? flat.slice(offsets[i], offsets[i] + params[i]->shape.elements())
                                  .view(params[i]->shape)
                            : Tensor();
}

void FlatGroup::bind_gradients(const Tensor& flat) {
  for (size_t i = 0; i < params.size(); ++i)
    params[i]->grad = flat ? flat.slice(offsets[i], offsets[i] + params[i]->shape.elements())
                                 .view(params[i]->shape)
                           : Tensor();
}

Tensor FlatGroup::owned_part(const Tensor& flat) const {
  return !flat || flat.elements() == owned.size() ? flat : flat.slice(owned.begin, owned.end);
}

}  // namespace sextant

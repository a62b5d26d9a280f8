#include "parallel/flat_group.h"

namespace sextant {

void FlatGroup::bind_values(const Tensor& flat) {
  for (size_t i = 0; i < params.size(); ++i)
    params[i]->value = flat ? flat.slice(offsets[i], offsets[i] + params[i]->shape.elements())
                                  .view(params[i]->shape)
                            : Tensor();
}

void FlatGroup::bind_fp8() {
  int64_t next = 0;  // element of the vectors
  for (size_t i = 0; i < params.size(); ++i) {
    Param& param = *params[i];
    const int64_t count = param.shape.elements();
    if (param.is_linear) {
      param.value = fp8.matrices.slice(offsets[i], offsets[i] + count).view(param.shape);
      param.amax = fp8_amax(i);
    } else {
      param.value = fp8.vectors.slice(next, next + count).view(param.shape);
      next += count;
    }
  }
}

Tensor FlatGroup::fp8_amax(size_t param) const {
  const Shape grid = params[param]->blocks(types.fp8.recipe).grid(params[param]->shape);
  return fp8.amax.slice(fp8.amax_places[param]).view(grid);
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

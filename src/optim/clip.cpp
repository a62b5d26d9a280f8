#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "ops/sum.h"
#include "tensor/copy.h"

namespace sextant {

double gradient_norm(Stream& stream, std::span<const Param> params, Tensor& scratch) {
  Write write = Write::Replace;
  for (const Param& param : params) {
    sum_of_squares(stream, scratch, param.grad, write);
    write = Write::Add;
  }
  double total = 0;
  copy_to_host<double>(stream, {&total, 1}, scratch);
  return std::sqrt(total);
}

double clip_scale(double norm, double limit) {
  return limit == 0 ? 1 : std::min(1.0, limit / (norm + 1e-6));
}

}  // namespace sextant

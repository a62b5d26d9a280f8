#include "model/dropout.h"

#include "ops/dropout.h"

namespace sextant {

void Dropout::apply(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y,
                    const Tensor& x) const {
  const Range own = ranks.own(micro.size());
  std::string_view place = name;
  if (inject.hits(InjectionKind::SameMask, -1, rank, micro.scalars.step + 1)) place = "every place";
  dropout(stream, y, x, micro.indices.slice(own.begin, own.end), micro.scalars.dropout_step,
          {seed, place, p, 0});
}

void Dropout::forward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                      Tensor& y) const {
  if (is_on(micro)) apply(stream, micro, ranks, y, y);
}

Tensor Dropout::backward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                         const Tensor& dy) const {
  if (!is_on(micro)) return dy;
  Tensor dx = activation(stream, dy, dy.shape());
  apply(stream, micro, ranks, dx, dy);
  return dx;
}

}  // namespace sextant

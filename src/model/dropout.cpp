#include "model/dropout.h"

#include "ops/dropout.h"

namespace sextant {

void Dropout::apply(Stream& stream, const Micro& micro, const TensorRanks& ranks, Tensor& y,
                    const Tensor& x, std::string_view place) const {
  Range own = ranks.own(micro.size());
  uint64_t key = seed;
  if (is_injected(InjectionKind::SameMask, micro)) place = "every place";
  if (is_injected(InjectionKind::RankMask, micro)) key += static_cast<uint64_t>(rank);
  if (is_injected(InjectionKind::SameSequenceMask, micro)) own = {0, own.size()};
  dropout(stream, y, x, micro.indices.slice(own.begin, own.end), micro.scalars.dropout_step,
          {key, place, p, 0});
}

void Dropout::forward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                      Tensor& y) const {
  if (is_on(micro)) apply(stream, micro, ranks, y, y, name);
}

void Dropout::replay(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                     Tensor& y) const {
  const bool is_other = is_injected(InjectionKind::UnreplayedMask, micro);
  if (is_on(micro))
    apply(stream, micro, ranks, y, y, is_other ? "recompute" : std::string_view(name));
}

Tensor Dropout::backward(Stream& stream, const Micro& micro, const TensorRanks& ranks,
                         const Tensor& dy) const {
  if (!is_on(micro)) return dy;
  Tensor dx = allocate_activation(stream, dy, dy.shape());
  const bool is_other = is_injected(InjectionKind::BackwardMask, micro);
  apply(stream, micro, ranks, dx, dy, is_other ? "backward" : std::string_view(name));
  return dx;
}

}  // namespace sextant

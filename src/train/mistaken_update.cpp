#include "train/mistaken_update.h"

#include <vector>

#include "tensor/copy.h"

namespace sextant {

void mistake_update(Stream& stream, InjectionKind kind, ShardedParams& params,
                    Optimizer& optimizer) {
  std::vector<std::vector<float>> before;
  for (const OwnedSlice& slice : params.owned()) {
    before.emplace_back(static_cast<size_t>(slice.value.elements()));
    copy_floats_to_host(stream, before.back(), slice.value);
  }
  optimizer.step(stream);
  if (kind == InjectionKind::UpdateTwice) optimizer.step(stream);
  if (kind == InjectionKind::SkippedUpdate)
    for (size_t i = 0; i < before.size(); ++i)
      if (OwnedSlice& slice = params.owned()[i]; slice.range.begin > 0)
        copy_floats_from_host(stream, slice.value, before[i]);
  if (kind == InjectionKind::LostMoments)
    for (NamedTensor& state : optimizer.state())
      if (state.first > 0) fill_zero(stream, state.tensor);
}

}  // namespace sextant

#include "train/mistaken_update.h"

#include <vector>

#include "tensor/copy.h"

namespace sextant {

void mistake_update(Stream& stream, InjectionKind kind, ShardedParams& params,
                    Optimizer& optimizer) {
  std::vector<std::vector<float>> before, masters;
  for (const OwnedSlice& slice : params.owned()) {
    before.emplace_back(static_cast<size_t>(slice.value.elements()));
    copy_floats_to_host(stream, before.back(), slice.value);
    if (kind != InjectionKind::StaleMasters) continue;
    masters.emplace_back(static_cast<size_t>(slice.master.elements()));
    copy_floats_to_host(stream, masters.back(), slice.master);
  }
  optimizer.step(stream);
  if (kind == InjectionKind::UpdateTwice) optimizer.step(stream);
  if (kind == InjectionKind::SkippedUpdate)
    for (size_t i = 0; i < before.size(); ++i)
      if (OwnedSlice& slice = params.owned()[i]; slice.range.begin > 0)
        copy_floats_from_host(stream, slice.value, before[i]);
  for (size_t i = 0; i < masters.size(); ++i)
    copy_floats_from_host(stream, params.owned()[i].master, masters[i]);
  if (kind == InjectionKind::LostMoments)
    for (NamedTensor& state : optimizer.state())
      if (state.first > 0) fill_zero(stream, state.tensor);
}

}  // namespace sextant

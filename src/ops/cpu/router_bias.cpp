#include "ops/router_bias.h"

#include <numeric>

#include "ops/cpu/packs.h"
#include "tensor/convert.h"

namespace sextant::cpu {
namespace {

// change(value, error) is the new value.
template <class W, class Change>
void update(const RouterBiasPart& part, Change&& change) {
  using F = Compute<W>;
  Tensor bias = part.bias, master = part.master;
  W* narrow = bias.data<W>();
  F* precise = master ? master.data<F>() : nullptr;
  const F* error = part.error.data<F>();
  for (int64_t i = 0; i < bias.elements(); ++i) {
    F value = 0;
    if (precise != nullptr)
      value = precise[i];
    else if constexpr (kIsNarrow<W>)
      value = widen(narrow[i]);
    else
      value = narrow[i];
    value = change(value, error[i]);
    if (precise != nullptr) precise[i] = value;
    if constexpr (kIsNarrow<W>)
      narrow[i] = round_nearest<W>(value);
    else
      narrow[i] = value;
  }
}

}  // namespace

void router_load_error(Stream&, Tensor& error, const Tensor& counts, Write write) {
  const int64_t experts = counts.dim(0);
  const int32_t* count = counts.data<int32_t>();
  const int64_t sum = std::accumulate(count, count + experts, int64_t{0});
  with_statistics(error.dtype(), [&]<class F>(F) {
    F* out = error.data<F>();
    for (int64_t e = 0; e < experts; ++e) {
      const F own = static_cast<F>(experts * count[e] - sum);
      out[e] = write == Write::Replace ? own : out[e] + own;
    }
  });
}

void router_bias_update(Stream&, std::span<const RouterBiasPart> parts, const Tensor& scalars,
                        double rate) {
  rate *= scalars.data<double>()[static_cast<size_t>(UpdateScalar::Apply)];  // 0 or 1
  for (const RouterBiasPart& part : parts)
    with_float(part.bias.dtype(), [&]<class W>(W) {
      const auto step = static_cast<Compute<W>>(rate);
      update<W>(part, [&](Compute<W> value, Compute<W> error) {
        if (error == 0) return value;
        return value + (error > 0 ? -step : step);
      });
    });
}

void router_load_update(Stream&, std::span<const RouterBiasPart> parts, const Tensor& scalars) {
  const double apply = scalars.data<double>()[static_cast<size_t>(UpdateScalar::Apply)];  // 0 or 1
  if (apply == 0) return;
  for (const RouterBiasPart& part : parts)
    with_float(part.bias.dtype(), [&]<class W>(W) {
      const auto scale = static_cast<Compute<W>>(apply);
      update<W>(part, [&](Compute<W>, Compute<W> error) { return scale * error; });
    });
}

}  // namespace sextant::cpu

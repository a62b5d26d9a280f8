#include "ops/router_bias.h"

#include <numeric>

#include "ops/cpu/packs.h"
#include "tensor/convert.h"

namespace sextant::cpu {
namespace {

template <class W>
void update(const RouterBiasPart& part, double rate) {
  using F = Compute<W>;
  Tensor bias = part.bias, master = part.master;
  W* narrow = bias.data<W>();
  F* precise = master ? master.data<F>() : nullptr;
  const F* error = part.error.data<F>();
  const F step = static_cast<F>(rate);
  for (int64_t i = 0; i < bias.elements(); ++i) {
    F value = 0;
    if (precise != nullptr)
      value = precise[i];
    else if constexpr (kIsNarrow<W>)
      value = widen(narrow[i]);
    else
      value = narrow[i];
    if (error[i] != 0) value += error[i] > 0 ? -step : step;
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
    with_float(part.bias.dtype(), [&]<class W>(W) { update<W>(part, rate); });
}

}  // namespace sextant::cpu

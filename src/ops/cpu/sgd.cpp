#include "ops/sgd.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 8192;

template <class W, class G>
void update(Stream& stream, SgdPart part, const double* scalars, double momentum) {
  using F = Compute<W>;
  const double rate = scalars[static_cast<size_t>(UpdateScalar::LearningRate)];
  const F keep = static_cast<F>(1 - rate * part.weight_decay), lr = static_cast<F>(rate);
  const F scale = static_cast<F>(scalars[static_cast<size_t>(UpdateScalar::GradientScale)]);
  const F slow = static_cast<F>(momentum);
  W* w = part.weight.data<W>();
  F* master = part.master ? part.master.data<F>() : nullptr;
  F* speed = part.velocity ? part.velocity.data<F>() : nullptr;
  const G* g = part.gradient.data<G>();
  stream.team().for_pieces(part.weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    for_packs<F>(begin, end, [&](auto at) {
      VectorOf<F> change = at(g) * scale;
      if (speed != nullptr) {
        change += at(static_cast<const F*>(speed)) * slow;
        at.put(speed, change);
      }
      const VectorOf<F> before =
          master != nullptr ? at(static_cast<const F*>(master)) : at(static_cast<const W*>(w));
      const VectorOf<F> after = before * keep - change * lr;
      if (master != nullptr) at.put(master, after);
      at.put(w, after);
    });
  });
}

}  // namespace

void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum) {
  const double* values = scalars.data<double>();
  if (values[static_cast<size_t>(UpdateScalar::Apply)] == 0) return;
  for (const SgdPart& part : parts)
    with_float(part.weight.dtype(), [&]<class W>(W) {
      with_either<W>(part.gradient.dtype(),
                     [&]<class G>(G) { update<W, G>(stream, part, values, momentum); });
    });
}

}  // namespace sextant::cpu

#include "ops/sgd.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 8192;

template <class T>
void update(Stream& stream, SgdPart part, const double* scalars, T momentum) {
  const double rate = scalars[static_cast<size_t>(UpdateScalar::LearningRate)];
  const T keep = static_cast<T>(1 - rate * part.weight_decay), lr = static_cast<T>(rate);
  const T scale = static_cast<T>(scalars[static_cast<size_t>(UpdateScalar::GradientScale)]);
  T* w = part.weight.data<T>();
  T* speed = part.velocity ? part.velocity.data<T>() : nullptr;
  const T* g = part.gradient.data<T>();
  stream.team().for_pieces(part.weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    for_packs<T>(begin, end, [&](auto at) {
      VectorOf<T> change = at(g) * scale;
      if (speed != nullptr) {
        change += at(static_cast<const T*>(speed)) * momentum;
        at.put(speed, change);
      }
      at.put(w, at(static_cast<const T*>(w)) * keep - change * lr);
    });
  });
}

}  // namespace

void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum) {
  const double* values = scalars.data<double>();
  if (values[static_cast<size_t>(UpdateScalar::Apply)] == 0) return;
  for (const SgdPart& part : parts)
    with_float(part.weight.dtype(),
               [&]<class T>(T) { update<T>(stream, part, values, static_cast<T>(momentum)); });
}

}  // namespace sextant::cpu

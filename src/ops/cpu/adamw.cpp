// One pass over four arrays: a step costs what reading all and writing three of them costs, so the
// arithmetic only has to stay below that.
#include "ops/adamw.h"

#include <cmath>

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 8192;

template <class T>
VectorOf<T> square_root(VectorOf<T> x) {
  for (int64_t lane = 0; lane < kLanes<VectorOf<T>>; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}

template <class T>
struct Factors {
  Factors(const double* scalars, const AdamWSettings& settings, double weight_decay)
      : Factors(settings, weight_decay, scalars[static_cast<size_t>(UpdateScalar::LearningRate)],
                scalars[static_cast<size_t>(UpdateScalar::Correction1)],
                scalars[static_cast<size_t>(UpdateScalar::Correction2)],
                scalars[static_cast<size_t>(UpdateScalar::GradientScale)]) {}

  T keep, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, scale;

 private:
  Factors(const AdamWSettings& settings, double decay, double lr, double correction1,
          double correction2, double gradient_scale)
      : keep(static_cast<T>(1 - lr * decay)),
        beta1(static_cast<T>(settings.beta1)),
        one_minus_beta1(static_cast<T>(1 - settings.beta1)),
        beta2(static_cast<T>(settings.beta2)),
        one_minus_beta2(static_cast<T>(1 - settings.beta2)),
        rate(static_cast<T>(lr / correction1)),
        root(static_cast<T>(1 / std::sqrt(correction2))),
        eps(static_cast<T>(settings.eps)),
        scale(static_cast<T>(gradient_scale)) {}
};

template <class T>
void update(Stream& stream, AdamWPart part, const Factors<T>& k) {
  T* w = part.weight.data<T>();
  T* m = part.first_moment.data<T>();
  T* v = part.second_moment.data<T>();
  const T* grad = part.gradient.data<T>();
  stream.team().for_pieces(part.weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    for_packs<T>(begin, end, [&](auto at) {
      const VectorOf<T> g = at(grad) * k.scale;
      const VectorOf<T> m1 = at(static_cast<const T*>(m)) * k.beta1 + g * k.one_minus_beta1;
      const VectorOf<T> v1 = at(static_cast<const T*>(v)) * k.beta2 + g * g * k.one_minus_beta2;
      const VectorOf<T> denominator = square_root<T>(v1) * k.root + k.eps;
      at.put(m, m1);
      at.put(v, v1);
      at.put(w, at(static_cast<const T*>(w)) * k.keep - m1 / denominator * k.rate);
    });
  });
}

}  // namespace

void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings) {
  const double* values = scalars.data<double>();
  if (values[static_cast<size_t>(UpdateScalar::Apply)] == 0) return;
  for (const AdamWPart& part : parts)
    with_float(part.weight.dtype(), [&]<class T>(T) {
      update<T>(stream, part, Factors<T>(values, settings, part.weight_decay));
    });
}

}  // namespace sextant::cpu

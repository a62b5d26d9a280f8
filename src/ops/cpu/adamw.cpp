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
  explicit Factors(const AdamWStep& step)
      : keep(static_cast<T>(1 - step.lr * step.weight_decay)),
        beta1(static_cast<T>(step.beta1)),
        one_minus_beta1(static_cast<T>(1 - step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        one_minus_beta2(static_cast<T>(1 - step.beta2)),
        rate(static_cast<T>(step.lr / step.correction1)),
        root(static_cast<T>(1 / std::sqrt(step.correction2))),
        eps(static_cast<T>(step.eps)),
        scale(static_cast<T>(step.gradient_scale)) {}

  T keep, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, scale;
};

}  // namespace

void adamw(Stream& stream, Tensor& weight, Tensor& first_moment, Tensor& second_moment,
           const Tensor& gradient, const AdamWStep& step) {
  with_float(weight.dtype(), [&]<class T>(T) {
    const Factors<T> k(step);
    T* w = weight.data<T>();
    T* m = first_moment.data<T>();
    T* v = second_moment.data<T>();
    const T* grad = gradient.data<T>();
    stream.team().for_pieces(weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
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
  });
}

}  // namespace sextant::cpu

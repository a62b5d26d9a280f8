#include "ops/sgd.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {

constexpr int64_t kGrain = 8192;

void sgd(Stream& stream, Tensor& weight, Tensor& velocity, const Tensor& gradient,
         const SgdStep& step) {
  with_float(weight.dtype(), [&]<class T>(T) {
    const T keep = static_cast<T>(1 - step.lr * step.weight_decay);
    const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
    const T scale = static_cast<T>(step.gradient_scale);
    T* w = weight.data<T>();
    T* speed = velocity ? velocity.data<T>() : nullptr;
    const T* g = gradient.data<T>();
    stream.team().for_pieces(weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      for_packs<T>(begin, end, [&](auto at) {
        VectorOf<T> change = at(g) * scale;
        if (speed != nullptr) {
          change += at(static_cast<const T*>(speed)) * momentum;
          at.put(speed, change);
        }
        at.put(w, at(static_cast<const T*>(w)) * keep - change * lr);
      });
    });
  });
}

}  // namespace sextant::cpu

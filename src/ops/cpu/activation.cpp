#include "ops/activation.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {

decltype(sextant::activate) activate;

void activate(Stream& stream, Tensor& y, const Tensor& x, const Activated& activated) {
  constexpr int64_t kElements = 8192;  // of one piece of work
  const bool is_exact = activated.activation == Activation::GeluExact;
  with_float(x.dtype(), [&]<class T>(T) {
    const T* from = x.data<T>();
    const T* before = activated.backward_of ? activated.backward_of.data<T>() : nullptr;
    T* to = y.data<T>();
    stream.team().for_pieces(x.elements(), kElements, [&](int64_t begin, int64_t end, int) {
      for_packs<Compute<T>>(begin, end, [&](auto at) {
        const VectorOf<T> own = at(from);
        if (before == nullptr) {
          at.put(to, is_exact ? gelu_exact(own) : gelu_tanh(own));
        } else {
          const VectorOf<T> point = at(before);
          at.put(to, own * (is_exact ? gelu_exact_grad(point) : gelu_tanh_grad(point)));
        }
      });
    });
  });
}

}  // namespace sextant::cpu

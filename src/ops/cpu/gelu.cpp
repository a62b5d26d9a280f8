#include "ops/gelu.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 8192;

template <class T, class F>
void for_elements(Stream& stream, int64_t count, F&& f) {
  stream.team().for_pieces(count, kGrain,
                           [&](int64_t begin, int64_t end, int) { for_packs<T>(begin, end, f); });
}

}  // namespace

void gelu(Stream& stream, Tensor& y, const Tensor& x, Activation form) {
  with_float(x.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    const T* from = x.data<T>();
    if (form == Activation::GeluTanh) {
      for_elements<T>(stream, x.elements(), [&](auto at) { at.put(to, gelu_tanh(at(from))); });
    } else {
      for_elements<T>(stream, x.elements(), [&](auto at) { at.put(to, gelu_exact(at(from))); });
    }
  });
}

void gelu_backward(Stream& stream, Tensor& dx, const Tensor& dy, const Tensor& x, Activation form) {
  with_float(x.dtype(), [&]<class T>(T) {
    T* to = dx.data<T>();
    const T* up = dy.data<T>();
    const T* from = x.data<T>();
    if (form == Activation::GeluTanh) {
      for_elements<T>(stream, x.elements(),
                      [&](auto at) { at.put(to, at(up) * gelu_tanh_grad(at(from))); });
    } else {
      for_elements<T>(stream, x.elements(),
                      [&](auto at) { at.put(to, at(up) * gelu_exact_grad(at(from))); });
    }
  });
}

}  // namespace sextant::cpu

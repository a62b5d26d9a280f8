#include "ops/activation.h"

#include "ops/cuda/activated.cuh"

namespace sextant::cuda {

decltype(sextant::activate) activate;

namespace {

template <class T, int N, class Form>
__global__ void __launch_bounds__(kBlock)
    activate_all(T* y, const T* x, int64_t packs, const Form form) {
  const int64_t pack = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (pack >= packs) return;
  Pack<T, N> values = *reinterpret_cast<const Pack<T, N>*>(x + pack * N);
  form(values, pack * N);
  *reinterpret_cast<Pack<T, N>*>(y + pack * N) = values;
}

}  // namespace

void activate(Stream& stream, Tensor& y, const Tensor& x, const Activated& activated) {
  with_activated("activate", x.dtype(), activated, [&]<class T>(T, auto form) {
    with_pack<T>(can_pack<T>(x.elements(), {y.raw(), x.raw(), activated.backward_of.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const int64_t packs = x.elements() / N;
                   launch(stream, "activate", activate_all<T, N, decltype(form)>, grid_of(packs),
                          kBlock, y.data<T>(), x.data<T>(), packs, form);
                 });
  });
}

}  // namespace sextant::cuda

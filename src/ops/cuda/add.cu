#include "ops/add.h"

#include "ops/cuda/kernel.h"

namespace sextant::cuda {
namespace {

// y may be a or b: a thread reads its elements before it writes them.
template <class T, int N>
__global__ void add_kernel(T* y, const T* a, const T* b, int64_t count) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first + N <= count) {
    float left[N], right[N];
    load(left, a + first);
    load(right, b + first);
#pragma unroll
    for (int i = 0; i < N; ++i) left[i] += right[i];
    store(y + first, left);
  } else {
    for (int64_t i = first; i < count; ++i) y[i] = rounded<T>(widened(a[i]) + widened(b[i]));
  }
}

}  // namespace

void add(Stream& stream, Tensor& y, const Tensor& a, const Tensor& b) {
  const int64_t count = y.elements();
  with_compute("add", y.dtype(), [&]<class T>(T) {
    with_pack<T>(are_aligned({y.raw(), a.raw(), b.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(stream, "add", add_kernel<T, N>, grid_of(ceil_div(count, N)), kBlock,
                          y.data<T>(), a.data<T>(), b.data<T>(), count);
                 });
  });
}

}  // namespace sextant::cuda

#include "ops/swiglu.h"

#include "ops/cuda/element_math.h"
#include "ops/cuda/kernel.h"

namespace sextant::cuda {
namespace {

// SiLU and its derivative as precise as T needs them.
template <class T>
__device__ ShortSilu silu_of(float x) {
  if constexpr (sizeof(T) < sizeof(float))
    return short_silu(x);
  else
    return {silu(x), silu_grad(x)};
}

template <class T, int N>
__global__ void swiglu_kernel(T* y, const T* gate_up, int64_t rows, int64_t packs) {
  for_cells(rows, packs, [&](int64_t row, int64_t pack) {
    const int64_t ffn = packs * N;
    const T* gate = gate_up + row * 2 * ffn + pack * N;
    float x[N], up[N];
    load(x, gate);
    load(up, gate + ffn);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = silu_of<T>(x[i]).value * up[i];
    store(y + row * ffn + pack * N, x);
  });
}

// Both inputs are read before either gradient is written: dgate_up may be gate_up.
template <class T, int N>
__global__ void swiglu_backward_kernel(T* dgate_up, const T* dy, const T* gate_up, int64_t rows,
                                       int64_t packs) {
  for_cells(rows, packs, [&](int64_t row, int64_t pack) {
    const int64_t ffn = packs * N, at = row * 2 * ffn + pack * N;
    float x[N], up[N], d[N];
    load(x, gate_up + at);
    load(up, gate_up + at + ffn);
    load(d, dy + row * ffn + pack * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const ShortSilu silu = silu_of<T>(x[i]);
      up[i] = d[i] * up[i] * silu.slope;
      x[i] = d[i] * silu.value;
    }
    store(dgate_up + at, up);
    store(dgate_up + at + ffn, x);
  });
}

}  // namespace

void swiglu(Stream& stream, Tensor& y, const Tensor& gate_up) {
  const int64_t rows = y.dim(0), ffn = y.dim(1);
  with_compute("swiglu", y.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(ffn, {y.raw(), gate_up.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(rows, ffn / N);
                   launch(stream, "swiglu", swiglu_kernel<T, N>, cells.grid, cells.block,
                          y.data<T>(), gate_up.data<T>(), rows, ffn / N);
                 });
  });
}

void swiglu_backward(Stream& stream, Tensor& dgate_up, const Tensor& dy, const Tensor& gate_up) {
  const int64_t rows = dy.dim(0), ffn = dy.dim(1);
  with_compute("swiglu_backward", dy.dtype(), [&]<class T>(T) {
    with_pack<T>(can_pack<T>(ffn, {dgate_up.raw(), dy.raw(), gate_up.raw()}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const Cells cells(rows, ffn / N);
                   launch(stream, "swiglu_backward", swiglu_backward_kernel<T, N>, cells.grid,
                          cells.block, dgate_up.data<T>(), dy.data<T>(), gate_up.data<T>(), rows,
                          ffn / N);
                 });
  });
}

}  // namespace sextant::cuda

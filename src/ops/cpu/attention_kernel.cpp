#include "ops/cpu/attention_kernel.h"

namespace sextant::cpu {

template <>
const AttentionKernels<float>& attention_kernels_256<float>() {
  static constexpr AttentionKernels<float> kKernels = make_attention_kernels<f32x8>();
  return kKernels;
}

template <>
const AttentionKernels<double>& attention_kernels_256<double>() {
  static constexpr AttentionKernels<double> kKernels = make_attention_kernels<f64x4>();
  return kKernels;
}

template <class T>
const AttentionKernels<T>& best_attention_kernels() {
  const AttentionKernels<T>* wide = attention_kernels_512<T>();
  return wide ? *wide : attention_kernels_256<T>();
}
template const AttentionKernels<float>& best_attention_kernels();
template const AttentionKernels<double>& best_attention_kernels();

}  // namespace sextant::cpu

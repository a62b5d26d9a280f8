#include "ops/cpu/attention_kernel.h"
#include "tensor/device.h"

namespace sextant::cpu {

#if defined(__AVX512F__)

template <>
const AttentionKernels<float>* attention_kernels_512<float>() {
  static constexpr AttentionKernels<float> kKernels = make_attention_kernels<f32x16>();
  return has_avx512() ? &kKernels : nullptr;
}

template <>
const AttentionKernels<double>* attention_kernels_512<double>() {
  static constexpr AttentionKernels<double> kKernels = make_attention_kernels<f64x8>();
  return has_avx512() ? &kKernels : nullptr;
}

#else

template <>
const AttentionKernels<float>* attention_kernels_512<float>() {
  return nullptr;
}

template <>
const AttentionKernels<double>* attention_kernels_512<double>() {
  return nullptr;
}

#endif

}  // namespace sextant::cpu

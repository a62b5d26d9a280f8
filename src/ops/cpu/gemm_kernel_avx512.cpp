#include "ops/cpu/gemm_kernel.h"
#include "tensor/device.h"

namespace sextant::cpu {

#if defined(__AVX512F__)

// 12 x 32 floats: 24 registers of sums, 2 of b, the rest for a, of the 32 that AVX-512 has.
template <>
const KernelSet<float>* kernels_512<float>() {
  static constexpr KernelSet<float> kSet = make_kernels<f32x16, 12, 2>(384);
  return has_avx512() ? &kSet : nullptr;
}

template <>
const KernelSet<double>* kernels_512<double>() {
  static constexpr KernelSet<double> kSet = make_kernels<f64x8, 12, 2>(256);
  return has_avx512() ? &kSet : nullptr;
}

#else

template <>
const KernelSet<float>* kernels_512<float>() {
  return nullptr;
}

template <>
const KernelSet<double>* kernels_512<double>() {
  return nullptr;
}

#endif

}  // namespace sextant::cpu

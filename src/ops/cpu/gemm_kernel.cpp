#include "ops/cpu/gemm_kernel.h"

namespace sextant::cpu {

// 6 x 16 floats: 12 registers of sums, 2 of b, 2 for a, of the 16 that AVX2 has.
template <>
const KernelSet<float>& kernels_256<float>() {
  static constexpr KernelSet<float> kSet = make_kernels<f32x8, 6, 2>(384);
  return kSet;
}

template <>
const KernelSet<double>& kernels_256<double>() {
  static constexpr KernelSet<double> kSet = make_kernels<f64x4, 6, 2>(256);
  return kSet;
}

template <class T>
const KernelSet<T>& best_kernels(DType operands) {
  if constexpr (std::is_same_v<T, float>)
    if (operands == DType::BF16 && kernels_bf16() != nullptr) return *kernels_bf16();
  const KernelSet<T>* wide = kernels_512<T>();
  return wide ? *wide : kernels_256<T>();
}
template const KernelSet<float>& best_kernels(DType);
template const KernelSet<double>& best_kernels(DType);

}  // namespace sextant::cpu

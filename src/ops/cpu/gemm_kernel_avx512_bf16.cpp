// Products of pairs of bf16. The instruction adds the product of the upper halves, rounds, adds
// that of the lower ones and rounds: with the even k packed as the upper half this is the chain of
// fused multiply-adds in ascending k of the other kernels, with their bits.
#include "ops/cpu/gemm_kernel.h"
#include "tensor/device.h"

namespace sextant::cpu {

#if defined(__AVX512BF16__)

namespace {

struct MultiplyPairs {
  [[gnu::always_inline]] static f32x16 apply(f32x16 a, f32x16 b, f32x16 sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

KernelSet<float> make_pair_kernels() {
  KernelSet<float> set = *kernels_512<float>();
  set.word_k = 2;
  fill_kernels<f32x16, MultiplyPairs, 12, 2>(set);
  return set;
}

}  // namespace

const KernelSet<float>* kernels_bf16() {
  if (!has_avx512_bf16()) return nullptr;
  static const KernelSet<float> kSet = make_pair_kernels();
  return &kSet;
}

#else

const KernelSet<float>* kernels_bf16() {
  return nullptr;
}

#endif

}  // namespace sextant::cpu

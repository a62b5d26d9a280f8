#pragma once
// Activated on a GPU: packs of x become what is quantised while they are in registers. The GELU by
// tanh has the fast exponential and reciprocal here, within 3e-6 of its value: the result is
// rounded to a narrow type, and with an exact division a kernel would wait for arithmetic, not for
// memory.
#include "ops/activation.h"
#include "ops/cuda/element_math.h"
#include "ops/cuda/kernel.h"
#include "ops/cuda/warp.cuh"

namespace sextant::cuda {

// 1 / x within 2^-23 of its value; 0 where that would be subnormal.
__device__ inline float reciprocal_near(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

// e^(-2u) of the formulas of element_math.h.
__device__ inline float gelu_tanh_power(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  return exp2_fast(x * fmaf(x * x, -kTwiceCubic * kLog2E, -kTwiceRoot * kLog2E));
}
__device__ inline float gelu_tanh_near(float x) {
  return at_least(x, -20) * reciprocal_near(gelu_tanh_power(x) + 1);
}
__device__ inline float gelu_tanh_grad_near(float x) {
  x = at_most(at_least(x, -10), 10);
  const float e = gelu_tanh_power(x), s = reciprocal_near(e + 1);
  const float slope = fmaf(x * x, 3 * kTwiceCubic, kTwiceRoot);
  return fmaf(x * s * slope, e * s, s);
}

// form(pack, at) makes the pack of x that begins at element `at` what is quantised.
template <class T>
struct AsItIs {
  template <int N>
  __device__ void operator()(Pack<T, N>&, int64_t) const {}
};

template <class T, bool kExact>
struct Gelu {
  template <int N>
  __device__ void operator()(Pack<T, N>& x, int64_t) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float own = widened(x.values[i]);
      x.values[i] = rounded<T>(kExact ? gelu_exact(own) : gelu_tanh_near(own));
    }
  }
};

template <class T, bool kExact>
struct GeluBackward {
  const T* before;

  template <int N>
  __device__ void operator()(Pack<T, N>& x, int64_t at) const {
    const Pack<T, N> points = *reinterpret_cast<const Pack<T, N>*>(before + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float point = widened(points.values[i]);
      x.values[i] = rounded<T>(widened(x.values[i]) *
                               (kExact ? gelu_exact_grad(point) : gelu_tanh_grad_near(point)));
    }
  }
};

// f(T{}, form) for x of this type.
template <class F>
void with_activated(const char* op, DType dtype, const Activated& activated, F&& f) {
  if (activated.activation == Activation::None)
    return with_compute(op, dtype, [&]<class T>(T) { f(T{}, AsItIs<T>{}); });
  SXT_CHECK(dtype == DType::BF16, Usage, op, ": an activation of ", name_of(dtype),
            " runs on the CPU only, on a GPU it must be of bf16");
  const bool is_exact = activated.activation == Activation::GeluExact;
  if (const bf16* before = data_or_null<bf16>(activated.backward_of)) {
    if (is_exact) return f(bf16{}, GeluBackward<bf16, true>{before});
    return f(bf16{}, GeluBackward<bf16, false>{before});
  }
  if (is_exact) return f(bf16{}, Gelu<bf16, true>{});
  f(bf16{}, Gelu<bf16, false>{});
}

}  // namespace sextant::cuda

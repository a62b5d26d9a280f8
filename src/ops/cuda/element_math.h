#pragma once
// SiLU and GELU with their derivatives on floats, by the formulas of cpu/vector_math.h.
#include <cuda_runtime.h>

namespace sextant::cuda {

// Bounds that keep a NaN, which fminf and fmaxf would lose.
__device__ inline float at_least(float x, float bound) {
  return x < bound ? bound : x;
}
__device__ inline float at_most(float x, float bound) {
  return x > bound ? bound : x;
}

// 1 / (1 + e^-x), never 0.
__device__ inline float sigmoid(float x) {
  return 1 / (expf(at_most(-x, 87)) + 1);
}

__device__ inline float silu(float x) {
  return at_least(x, -87) * sigmoid(x);
}
__device__ inline float silu_grad(float x) {
  x = at_most(at_least(x, -87), 87);
  const float e = expf(-x), s = 1 / (e + 1);
  return fmaf(x * s, e * s, s);  // s + x s (1 - s)
}

// The larger or smaller of two, NaN if one is.
__device__ inline float max_or_nan(float x, float y) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(x), "f"(y));
  return out;
}
__device__ inline float min_or_nan(float x, float y) {
  float out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(x), "f"(y));
  return out;
}

// SiLU and its derivative in few instructions, within 2^-20 of the larger of their values and 1:
// for results in a narrow type.
struct ShortSilu {
  float value, slope;
};
__device__ inline ShortSilu short_silu(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  x = max_or_nan(x, -87);
  const float bounded = min_or_nan(x, 87);  // e^-x and its inverse stay normal numbers
  float e, s;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(bounded * -kLog2E));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1 + e));
  return {x * s, fmaf(bounded * s, 1 - s, s)};
}

// 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr float kTwiceRoot = static_cast<float>(2 * 0.7978845608028654);
inline constexpr float kTwiceCubic = static_cast<float>(2 * 0.7978845608028654 * 0.044715);

__device__ inline float gelu_tanh(float x) {
  return at_least(x, -20) * sigmoid(x * fmaf(x * x, kTwiceCubic, kTwiceRoot));
}
__device__ inline float gelu_tanh_grad(float x) {
  x = at_most(at_least(x, -10), 10);
  const float e = expf(-x * fmaf(x * x, kTwiceCubic, kTwiceRoot)), s = 1 / (e + 1);
  const float slope = fmaf(x * x, 3 * kTwiceCubic, kTwiceRoot);
  return fmaf(x * s * slope, e * s, s);
}

// x P(X < x) of a normal X, and its derivative P + x p.
__device__ inline float gelu_exact(float x) {
  return at_least(x, -40) * normcdff(x);
}
__device__ inline float gelu_exact_grad(float x) {
  x = at_most(at_least(x, -40), 40);
  return fmaf(x, 0.3989422804014327F * expf(-0.5F * x * x), normcdff(x));
}

}  // namespace sextant::cuda

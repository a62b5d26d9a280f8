#pragma once
// What the kernels of routing and of its losses share: a warp has a token.
#include <limits>

#include "ops/cuda/kernel.h"
#include "ops/moe_route.h"

namespace sextant::cuda {

inline constexpr int kRouterWarps = 4;  // tokens of a block
inline constexpr int kRouterThreads = kRouterWarps * kWarp;
// The largest of no logits.
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ inline int64_t first_row() {
  return int64_t{blockIdx.x} * kRouterWarps + threadIdx.x / kWarp;
}
inline dim3 grid_of_tokens(int64_t tokens) {
  return dim3(static_cast<unsigned>(ceil_div(tokens, kRouterWarps)));
}

// The softmax over all experts of a token; every lane has the same numbers.
struct Softmax {
  float largest = kNothing, sum = 0;

  __device__ Softmax(const float* logits, int experts) {
    for (int e = lane(); e < experts; e += kWarp) largest = fmaxf(largest, logits[e]);
    largest = warp_max(largest);
    for (int e = lane(); e < experts; e += kWarp) sum += expf(logits[e] - largest);
    sum = warp_sum(sum);
  }
  __device__ float operator()(float logit) const { return expf(logit - largest) / sum; }
  __device__ float lse() const { return largest + logf(sum); }
};

// Rounded to f32 as on the CPU, whose expf rounds nearly every result correctly: choices between
// equal or close scores are the CPU's.
__device__ inline float router_sigmoid(float logit) {
  return 1 / (1 + static_cast<float>(exp(-static_cast<double>(logit))));
}

}  // namespace sextant::cuda

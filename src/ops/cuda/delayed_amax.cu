#include "ops/delayed_amax.h"

#include "ops/cuda/fp8.cuh"

namespace sextant::cuda {

decltype(sextant::take_delayed_amax) take_delayed_amax;
decltype(sextant::update_delayed_amax) update_delayed_amax;

namespace {

__global__ void take_kernel(float* amax, float* found, const float* used, WithAmax with) {
  *found = __uint_as_float(max(magnitude(*found), magnitude(*amax)));
  if (with == WithAmax::Used || (with == WithAmax::UsedIfAny && *used > 0)) *amax = *used;
}

// A block of threads for a row. The history moves by one from its end on, kBlock steps at a time.
__global__ void __launch_bounds__(kBlock)
    update_kernel(float* state, const float* found, int64_t width, int margin) {
  float* used = state + blockIdx.x * width;
  float* history = used + 1;
  const int64_t steps = width - 1;
  const float newest = found[blockIdx.x];
  const bool is_entered = isfinite(newest);
  float most = 0;
  for (int64_t chunk = (steps - 1) / kBlock; chunk >= 0; --chunk) {
    const int64_t at = chunk * kBlock + threadIdx.x;
    const bool is_inside = at < steps;
    float value = 0;
    if (is_inside) value = !is_entered ? history[at] : at == 0 ? newest : history[at - 1];
    __syncthreads();
    if (is_inside) history[at] = value;
    most = fmaxf(most, value);
    __syncthreads();
  }
  most = warp_max(most);
  __shared__ float of_warps[kBlock / kWarp];
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kBlock / kWarp; ++warp) most = fmaxf(most, of_warps[warp]);
  const float next = ldexpf(most, margin);
  if (most > 0 && isfinite(next)) *used = next;
}

}  // namespace

void take_delayed_amax(Stream& stream, Tensor& amax, Tensor& found, const Tensor& used,
                       WithAmax with) {
  launch(stream, "take_delayed_amax", take_kernel, 1, 1, amax.data<float>(), found.data<float>(),
         used.data<float>(), with);
}

void update_delayed_amax(Stream& stream, Tensor& state, const Tensor& found, int64_t margin) {
  launch(stream, "update_delayed_amax", update_kernel, static_cast<unsigned>(state.dim(0)), kBlock,
         state.data<float>(), found.data<float>(), state.dim(1), static_cast<int>(margin));
}

}  // namespace sextant::cuda

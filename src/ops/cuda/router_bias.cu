#include "ops/router_bias.h"

#include "ops/cuda/typed.h"

namespace sextant::cuda {
namespace {

__global__ void __launch_bounds__(kBlock)
    load_error_kernel(float* error, const int32_t* counts, int64_t experts, bool adds) {
  int64_t sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += counts[e];
  for (int64_t e = threadIdx.x; e < experts; e += kBlock) {
    const auto own = static_cast<float>(experts * counts[e] - sum);
    error[e] = adds ? error[e] + own : own;
  }
}

__global__ void __launch_bounds__(kBlock)
    bias_kernel(Typed bias, float* master, const float* error, int64_t count, float rate,
                const double* scalars) {
  rate *= static_cast<float>(scalars[static_cast<int>(UpdateScalar::Apply)]);  // 0 or 1
  for (int64_t i = threadIdx.x; i < count; i += kBlock) {
    float value[1];
    if (master != nullptr)
      value[0] = master[i];
    else
      bias.load(value, i);
    value[0] -= error[i] > 0 ? rate : error[i] < 0 ? -rate : 0;
    if (master != nullptr) master[i] = value[0];
    bias.store(i, value);
  }
}

__global__ void __launch_bounds__(kBlock) load_kernel(Typed load, float* master, const float* error,
                                                      int64_t count, const double* scalars) {
  const auto apply = static_cast<float>(scalars[static_cast<int>(UpdateScalar::Apply)]);  // 0 or 1
  if (apply == 0) return;
  for (int64_t i = threadIdx.x; i < count; i += kBlock) {
    const float value[1] = {apply * error[i]};
    if (master != nullptr) master[i] = value[0];
    load.store(i, value);
  }
}

}  // namespace

void router_load_error(Stream& stream, Tensor& error, const Tensor& counts, Write write) {
  check_statistics("router_load_error", error);
  launch(stream, "router_load_error", load_error_kernel, 1, kBlock, error.data<float>(),
         counts.data<int32_t>(), counts.dim(0), write != Write::Replace);
}

void router_bias_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars, double rate) {
  for (const RouterBiasPart& part : parts) {
    if (part.bias.elements() == 0) continue;
    launch(stream, "router_bias_update", bias_kernel, 1, kBlock,
           Typed("router_bias_update", part.bias),
           const_cast<float*>(data_or_null<float>(part.master)), part.error.data<float>(),
           part.bias.elements(), static_cast<float>(rate), scalars.data<double>());
  }
}

void router_load_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars) {
  for (const RouterBiasPart& part : parts) {
    if (part.bias.elements() == 0) continue;
    launch(stream, "router_load_update", load_kernel, 1, kBlock,
           Typed("router_load_update", part.bias),
           const_cast<float*>(data_or_null<float>(part.master)), part.error.data<float>(),
           part.bias.elements(), scalars.data<double>());
  }
}

}  // namespace sextant::cuda

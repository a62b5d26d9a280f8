#include <cuda_runtime.h>

#include <vector>

#include "tensor/device.h"
#include "tensor/gpu.h"

namespace sextant {
namespace {

constexpr int kBlock = 256;
constexpr int kBlocks = 64;

// Self-test: each thread adds its own number, and the host checks the sum.
__global__ void sum_of_thread_numbers(unsigned long long* sum) {
  atomicAdd(sum, static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x);
}

std::string self_test(int device) {
  const auto text = [](cudaError_t error) { return std::string(cudaGetErrorString(error)); };
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return text(error);
  unsigned long long* sum = nullptr;
  if (const cudaError_t error = cudaMalloc(&sum, sizeof *sum); error != cudaSuccess)
    return text(error);
  cudaMemset(sum, 0, sizeof *sum);
  sum_of_thread_numbers<<<kBlocks, kBlock>>>(sum);
  unsigned long long result = 0;
  const cudaError_t error = cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost);
  cudaFree(sum);
  if (error != cudaSuccess) return text(error);
  const unsigned long long threads = static_cast<unsigned long long>(kBlock) * kBlocks;
  return result == threads * (threads - 1) / 2 ? "" : "a test kernel gave a wrong sum";
}

// 13000 is 13.0; 0: none.
std::string version_text(int version) {
  if (version == 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

GpuList list_gpus() {
  GpuList list;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) list.driver = version_text(version);
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) list.runtime = version_text(version);
  list.why_none = gpu::why_unusable(0);
  if (!list.why_none.empty()) return list;
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      list.gpus.push_back({"GPU", 0, 0, 0, 0, cudaGetErrorString(error)});
      continue;
    }
    const std::string problem = self_test(i);
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);  // of the device that self_test has selected
    list.gpus.push_back({properties.name, static_cast<int64_t>(properties.totalGlobalMem),
                         static_cast<int64_t>(free), properties.major, properties.minor, problem});
  }
  return list;
}

}  // namespace sextant

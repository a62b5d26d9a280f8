#pragma once
#include <string>

#include "base/error.h"
#include "tensor/cuda/queue.h"

namespace sextant::cuda {

// Launches a kernel with `shared` bytes of dynamic shared memory on the stream's queue.
template <class... Params, class... Args>
void launch(Stream& stream, const char* name, void (*kernel)(Params...), int64_t blocks,
            int threads, int shared, Args&&... args) {
  SXT_CHECK(blocks < int64_t{1} << 31, Usage, name, ": ", blocks,
            " blocks are more than a GPU takes at once");
  if (shared > 48 << 10)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
          name);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared);
  config.stream = queue_of(stream);
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), name);
}

}  // namespace sextant::cuda

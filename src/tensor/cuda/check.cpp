#include "base/error.h"
#include "tensor/cuda/queue.h"

namespace sextant::cuda {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) [[likely]]
    return;
  (void)cudaGetLastError();  // otherwise the next check of a launch would report it again
  throw Error(error == cudaErrorMemoryAllocation ? Fault::Memory : Fault::Failure,
              concat("CUDA: ", what, " failed: ", cudaGetErrorString(error), " (",
                     cudaGetErrorName(error), ")"));
}

}  // namespace sextant::cuda

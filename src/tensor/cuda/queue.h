#pragma once
// The CUDA side of a Stream, for the sources in cuda/ folders.
#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/stream.h"

namespace sextant::cuda {

// The CUDA stream on which the operations of `stream` run, in order. The calling thread's current
// device is the stream's.
cudaStream_t queue_of(Stream& stream);

// Throws the Error of a failed CUDA call; `what` names the call.
void check(cudaError_t error, const char* what);

// The first bad value that kernels met since Stream::check_data: plain data in device memory.
using sextant::DeviceFault;
// A kernel that finds message == 0 and a bad value writes both; launched in order, the first stays.
DeviceFault* fault_of(Stream& stream);
using sextant::message_of;

}  // namespace sextant::cuda

#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "base/function_ref.h"

namespace sextant::cuda {

// Which of `count` ways to do one thing is the fastest: each is done a few times on the queue, in
// turns, so that all see the same clocks, and slow ones drop out. way(i) adds it to the queue;
// false if that failed. The first stays unless another is clearly faster.
size_t fastest_of(size_t count, cudaStream_t queue, FunctionRef<bool(size_t)> way);

}  // namespace sextant::cuda

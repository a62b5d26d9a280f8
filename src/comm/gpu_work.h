#pragma once
#include <span>

#include "comm/call.h"
#include "tensor/gpu.h"

namespace sextant {

// Issues one collective in the memory of a GPU: reads the inputs and writes the outputs of all
// ranks, whose calls, by rank, must agree. Sums, maxima and minima are those of reduce.h: in rank
// order, narrow types in f32 and rounded once. Each output element is written by the thread that
// has read all inputs of it, so outputs may be inputs as in Call.
//
// In cuda/; in a build without CUDA no Queue exists. Error(Config) for more than kMostGpuRanks.
inline constexpr int kMostGpuRanks = 64;
void work_on_gpu(gpu::Queue& queue, std::span<const Call* const> calls);

// Issues out = in[0] + in[1] + ... (or max, min) of one rank, as reduce_into of reduce.h, with its
// bits. `out` may be one of the inputs, of which there are at most kMostFolded: a kernel gets their
// addresses by value, and takes 32764 bytes.
inline constexpr int kMostFolded = 4032;
void fold_on_gpu(gpu::Queue& queue, std::byte* out, std::span<const std::byte* const> in,
                 int64_t count, DType dtype, ReduceOp reduce_op, Into into);

// Issues ++*counter, in pinned host memory, where the host sees it while later work still runs.
void count_on_gpu(gpu::Queue& queue, int64_t* counter);

}  // namespace sextant

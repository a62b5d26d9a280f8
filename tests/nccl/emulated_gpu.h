#pragma once
// A stand-in for CUDA's streams and events on the host: a stream is a thread that does its work in
// order, and a wait for an event blocks it, as on a GPU.
#include <cstdint>
#include <functional>

struct CUstream_st {
  virtual ~CUstream_st() = default;
  virtual void push(std::function<void()> work) = 0;
};

namespace sextant {

// Calls that CUDA makes in the context of the thread's current GPU, made while that was another one
// than the call's: CUDA would make a context there. A thread begins with GPU 0.
int emulated_gpu_misplaced();
int64_t emulated_gpu_looks();   // at events, without waiting
int64_t emulated_gpu_memory();  // bytes that are allocated

}  // namespace sextant

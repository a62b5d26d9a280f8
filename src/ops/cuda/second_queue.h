#pragma once
#include <cuda_runtime.h>

#include <array>

namespace sextant::cuda {

// A CUDA stream that branches off from the caller's and joins it again.
class SecondQueue {
 public:
  SecondQueue();
  ~SecondQueue();
  SecondQueue(const SecondQueue&) = delete;
  SecondQueue& operator=(const SecondQueue&) = delete;

  cudaStream_t queue() const { return queue_; }
  void branch_off(cudaStream_t from);
  void join(cudaStream_t to);

 private:
  cudaStream_t queue_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

}  // namespace sextant::cuda

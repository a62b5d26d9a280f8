#include <cuda_runtime.h>

#include "tensor/cuda/queue.h"
#include "tensor/gpu.h"

namespace sextant::gpu {
namespace {

CUevent_st* make_event() {
  CUevent_st* event = nullptr;
  cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

}  // namespace

Marks::Marks(int index, int count) : index_(index) {
  select(index_);
  for (int i = 0; i < count; ++i) events_.push_back(make_event());
}

Marks::~Marks() {
  for (CUevent_st* event : events_) (void)cudaEventDestroy(event);
}

int Marks::add(Queue& queue) {
  select(index_);
  if (used_ == static_cast<int>(events_.size())) events_.push_back(make_event());
  cuda::check(cudaEventRecord(events_[static_cast<size_t>(used_)], queue.handle()),
              "cudaEventRecord");
  return used_++;
}

double Marks::seconds_between(int first, int second) const {
  float milliseconds = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, events_[static_cast<size_t>(first)],
                                   events_[static_cast<size_t>(second)]),
              "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace sextant::gpu

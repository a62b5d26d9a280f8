#include "ops/cuda/second_queue.h"

#include "tensor/cuda/queue.h"

namespace sextant::cuda {
namespace {

void order(cudaEvent_t event, cudaStream_t first, cudaStream_t then) {
  check(cudaEventRecord(event, first), "cudaEventRecord");
  check(cudaStreamWaitEvent(then, event, 0), "cudaStreamWaitEvent");
}

}  // namespace

SecondQueue::SecondQueue() {
  check(cudaStreamCreateWithFlags(&queue_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (cudaEvent_t& event : events_)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

SecondQueue::~SecondQueue() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaStreamDestroy(queue_);
}

void SecondQueue::branch_off(cudaStream_t from) {
  order(events_[0], from, queue_);
}
void SecondQueue::join(cudaStream_t to) {
  order(events_[1], queue_, to);
}

}  // namespace sextant::cuda

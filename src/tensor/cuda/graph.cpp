// Calls that are unsafe during a capture, such as allocations, are allowed: libraries make some,
// and so do threads that issue collectives to streams of their own, which the capture spreads to.
#include <cuda_runtime.h>

#include "tensor/cuda/queue.h"
#include "tensor/gpu.h"

namespace sextant::gpu {

using cuda::check;

Graph::~Graph() {
  if (handle_ != nullptr) (void)cudaGraphExecDestroy(handle_);
}

void Graph::begin() {
  SXT_CHECK(handle_ == nullptr, Internal, "a graph is recorded once");
  check(cudaSetDevice(queue_.index()), "cudaSetDevice");
  staging_.start_recording();
  check(cudaStreamBeginCapture(queue_.handle(), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  queue_.set_recording(true);
}

void Graph::end() {
  queue_.set_recording(false);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(queue_.handle(), &graph), "cudaStreamEndCapture");
  staging_.stop_recording();
  const cudaError_t made = cudaGraphInstantiate(&handle_, graph, 0);
  (void)cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
}

void Graph::give_up() noexcept {
  queue_.set_recording(false);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(queue_.handle(), &graph) == cudaSuccess) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  staging_.stop_recording();
}

void Graph::launch() {
  check(cudaSetDevice(queue_.index()), "cudaSetDevice");
  staging_.repeat_recorded();
  check(cudaGraphLaunch(handle_, queue_.handle()), "cudaGraphLaunch");
}

}  // namespace sextant::gpu

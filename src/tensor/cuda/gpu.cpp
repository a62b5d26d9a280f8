#include "tensor/gpu.h"

#include <cuda_runtime.h>

#include <cstring>

#include "base/error.h"
#include "base/parse.h"
#include "tensor/cuda/queue.h"

namespace sextant::gpu {
namespace {

using cuda::check;

}  // namespace

// CUDA's current device is a property of the thread, and any thread may use any GPU.
void select(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
}

int count() {
  int found = 0;
  if (cudaGetDeviceCount(&found) == cudaSuccess) return found;
  (void)cudaGetLastError();
  return 0;
}

std::string identity(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

std::string why_unusable(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess && error != cudaErrorNoDevice) {
    (void)cudaGetLastError();
    return concat("No NVIDIA GPU: ", cudaGetErrorString(error));
  }
  if (count == 0) return "No NVIDIA GPU";
  if (index >= count)
    return concat("No NVIDIA GPU ", index, ": this machine has ", count, ", from 0 on");
  return "";
}

std::byte* allocate(int index, int64_t bytes) {
  select(index);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    SXT_FAIL(Memory, "GPU ", index, ": ", format_bytes(bytes), " (", bytes,
             " bytes) cannot be allocated, ", format_bytes(memory_of(index).free), " (",
             memory_of(index).free, " bytes) are free");
  }
  check(error, "cudaMalloc");
  return static_cast<std::byte*>(data);
}

// Waits for all work on the GPU, which may use this memory. An error was thrown where it was met.
void release(int index, std::byte* data) noexcept {
  if (cudaSetDevice(index) == cudaSuccess) (void)cudaFree(data);
}

std::byte* allocate_pinned(int index, int64_t bytes) {
  select(index);
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    SXT_FAIL(Memory, format_bytes(bytes), " (", bytes,
             " bytes) of pinned host memory cannot be allocated");
  }
  check(error, "cudaHostAlloc");
  std::memset(data, 0, static_cast<size_t>(bytes));
  return static_cast<std::byte*>(data);
}

void release_pinned(int index, std::byte* data) noexcept {
  if (cudaSetDevice(index) == cudaSuccess) (void)cudaFreeHost(data);
}

Memory memory_of(int index) {
  select(index);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

Event::Event(int index) {
  select(index);
  check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreate");
}

Event::~Event() {
  (void)cudaEventDestroy(handle_);
}

void Event::record(Queue& queue) {
  check(cudaEventRecord(handle_, queue.handle()), "cudaEventRecord");
}

bool Event::is_done() const {
  const cudaError_t error = cudaEventQuery(handle_);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(error, "cudaEventQuery");
  return true;
}

Queue::Queue(int index) : index_(index) {
  select(index);
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Queue::~Queue() {
  (void)cudaStreamDestroy(handle_);
}

void Queue::wait_for(const Event& event) {
  check(cudaStreamWaitEvent(handle_, event.handle_, 0), "cudaStreamWaitEvent");
}

void Queue::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0) return;
  select(index_);
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, handle_),
        "cudaMemcpyAsync");
}

void Queue::fill_zero(std::byte* to, int64_t bytes) {
  if (bytes == 0) return;
  select(index_);
  check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), handle_), "cudaMemsetAsync");
}

void Queue::synchronize() {
  ++waits_;
  const cudaError_t error = cudaStreamSynchronize(handle_);
  if (check_ != nullptr) (*check_)();
  check(error, "cudaStreamSynchronize");
}

void Queue::synchronize(const Event& event) {
  ++waits_;
  const cudaError_t error = cudaEventSynchronize(event.handle_);
  if (check_ != nullptr) (*check_)();
  check(error, "cudaEventSynchronize");
}

}  // namespace sextant::gpu

namespace sextant::cuda {

cudaStream_t queue_of(Stream& stream) {
  check(cudaSetDevice(stream.queue().index()), "cudaSetDevice");
  return stream.queue().handle();
}

DeviceFault* fault_of(Stream& stream) {
  return stream.device_fault();
}

}  // namespace sextant::cuda

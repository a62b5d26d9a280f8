#pragma once
// A stand-in for CUDA's streams and events on the host: a stream is a thread that does its work in
// order, and a wait for an event blocks it, as on a GPU.
#include <functional>

struct CUstream_st {
  virtual ~CUstream_st() = default;
  virtual void push(std::function<void()> work) = 0;
};

#pragma once
// Graphs of the emulated GPU: work of streams that is recorded and repeated, and the errors that
// CUDA gives for events inside and outside of a recording.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl/emulated_gpu.h"

// Work of streams that is recorded for a graph, in the order in which it was issued. A gate is an
// event of one launch.
struct Recording {
  struct Gates {
    explicit Gates(size_t count) : is_open(count) {}
    void open(size_t gate) {
      const std::lock_guard lock(mutex);
      is_open[gate] = true;
      changed.notify_all();
    }
    void await(size_t gate) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_open[gate]; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<bool> is_open;
  };
  struct Work {
    CUstream_st* stream;
    std::function<void(Gates&)> run;
  };

  std::mutex mutex;
  CUstream_st* origin = nullptr;
  std::vector<Work> work;
  size_t gates = 0;
  std::map<CUstream_st*, bool> is_joined;  // by stream: the origin waits for all of its work so far
  std::map<size_t, std::pair<CUstream_st*, size_t>> gate_at;  // stream and its number of works then
  std::map<CUstream_st*, size_t> works;

  void add(CUstream_st* stream, std::function<void(Gates&)> run) {
    work.push_back({stream, std::move(run)});
    ++works[stream];
    is_joined[stream] = stream == origin;
  }
};
struct CUevent_st {
  int gpu = 0;
  std::shared_ptr<Recording> recording;  // in which it was recorded last; null: outside of any
  size_t gate = 0;                       // there
  std::chrono::steady_clock::time_point time;  // when a mark was passed
  std::mutex mutex;
  std::condition_variable changed;
  int64_t recorded = 0, passed = 0;
};

namespace sextant::gpu {

// Null for a stream that is not recorded.
std::shared_ptr<Recording> recording_of(CUstream_st* stream);
// The stream waits for an event of a recording, and takes part in it from here on.
void wait_in_graph(const CUevent_st& event, CUstream_st* stream);
void check_cuda(bool is_right, const char* what);

}  // namespace sextant::gpu

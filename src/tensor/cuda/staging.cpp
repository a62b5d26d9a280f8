// Uploads go through a ring of pinned segments. Small copies share a segment; when it is full, an
// event marks the end of its copies, and the segment is filled again once that event has passed.
// Host memory can thus be reused right after the call, and a step whose uploads fit the ring never
// waits. Uploads of a recorded graph have pinned memory of their own, which is filled again before
// each launch; so have those of its later downloads that the common memory has no room for.
// Tensors may lie in pinned host memory (offload), so CUDA finds out the direction of a copy.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "tensor/cuda/queue.h"
#include "tensor/gpu.h"

namespace sextant::gpu {
namespace {

using cuda::check;

constexpr int64_t kSegment = int64_t{2} << 20;  // bytes
constexpr int kUp = 8, kDown = 2;               // segments for uploads and for downloads
constexpr int64_t kLater = int64_t{256} << 10;  // bytes of download_later
constexpr int64_t kAlign = 16;                  // of each copy in a segment

// Pinned host memory.
class Pinned {
 public:
  Pinned(int index, int64_t bytes) {
    check(cudaSetDevice(index), "cudaSetDevice");
    void* data = nullptr;
    check(cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocDefault), "cudaHostAlloc");
    data_ = static_cast<std::byte*>(data);
  }
  ~Pinned() { (void)cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

struct Segment {
  explicit Segment(int index) : done(index) {}
  Event done;  // of the copies from it
  bool is_in_use = false;
};

// A copy that has arrived in pinned memory when its queue is synchronized.
struct Reading {
  std::span<std::byte> to;
  const std::byte* from = nullptr;
};

// Copies of a recorded graph.
struct Recorded {
  struct Upload {
    std::byte* staged;
    std::span<const std::byte> from;
  };
  std::vector<std::unique_ptr<Pinned>> blocks;
  int64_t size = 0, used = 0;  // of the last block
  std::vector<Upload> uploads;
  std::vector<Reading> readings;
  int64_t read = 0;  // bytes of later()

  std::byte* take(int index, int64_t bytes) {
    if (blocks.empty() || used + bytes > size) {
      size = std::max(bytes, kSegment);
      used = 0;
      blocks.push_back(std::make_unique<Pinned>(index, size));
    }
    std::byte* staged = blocks.back()->data() + used;
    used += (bytes + kAlign - 1) / kAlign * kAlign;
    return staged;
  }
  std::byte* stage(int index, std::span<const std::byte> from) {
    std::byte* staged = take(index, static_cast<int64_t>(from.size()));
    uploads.push_back({staged, from});
    return staged;
  }
};

}  // namespace

struct Staging::State {
  explicit State(Queue& queue)
      : queue(queue), memory(queue.index(), (kUp + kDown) * kSegment + kLater) {
    for (int i = 0; i < kUp; ++i) up.push_back(std::make_unique<Segment>(queue.index()));
    readings.reserve(64);
  }
  std::byte* segment(int number) const { return memory.data() + number * kSegment; }
  std::byte* down(int number) const { return segment(kUp + number); }
  std::byte* later() const { return segment(kUp + kDown); }

  void close_segment() {
    up[static_cast<size_t>(current)]->done.record(queue);
    up[static_cast<size_t>(current)]->is_in_use = true;
    current = (current + 1) % kUp;
    used = 0;
    Segment& next = *up[static_cast<size_t>(current)];
    if (next.is_in_use) queue.synchronize(next.done);
    next.is_in_use = false;
  }

  Queue& queue;
  Pinned memory;
  std::vector<std::unique_ptr<Segment>> up;
  int current = 0;   // segment that is being filled
  int64_t used = 0;  // bytes of it
  std::vector<Reading> readings;
  int64_t read = 0;  // bytes of later()
  Recorded recorded;
  bool is_recording = false;
};

Staging::Staging(Queue& queue) : state_(std::make_unique<State>(queue)) {}

// Copies from or into the pinned memory may still be under way.
Staging::~Staging() {
  (void)cudaStreamSynchronize(state_->queue.handle());
}

void Staging::upload(std::byte* to, std::span<const std::byte> from) {
  State& state = *state_;
  check(cudaSetDevice(state.queue.index()), "cudaSetDevice");
  const auto bytes = static_cast<int64_t>(from.size());
  if (state.is_recording) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, state.recorded.stage(state.queue.index(), from), from.size(),
                            cudaMemcpyDefault, state.queue.handle()),
            "cudaMemcpyAsync");
    return;
  }
  for (int64_t at = 0; at < bytes;) {
    if (state.used == kSegment) state.close_segment();
    const int64_t length = std::min(bytes - at, kSegment - state.used);
    std::byte* staged = state.segment(state.current) + state.used;
    std::memcpy(staged, from.data() + at, static_cast<size_t>(length));
    check(cudaMemcpyAsync(to + at, staged, static_cast<size_t>(length), cudaMemcpyDefault,
                          state.queue.handle()),
          "cudaMemcpyAsync");
    state.used = std::min(kSegment, (state.used + length + kAlign - 1) / kAlign * kAlign);
    at += length;
  }
}

// Two segments: one is copied out by the host while the other one is filled.
void Staging::download(std::span<std::byte> to, const std::byte* from) {
  State& state = *state_;
  check(cudaSetDevice(state.queue.index()), "cudaSetDevice");
  const auto bytes = static_cast<int64_t>(to.size());
  const auto start = [&](int64_t at, int half) {
    check(cudaMemcpyAsync(state.down(half), from + at,
                          static_cast<size_t>(std::min(kSegment, bytes - at)), cudaMemcpyDefault,
                          state.queue.handle()),
          "cudaMemcpyAsync");
  };
  if (bytes == 0) return;
  start(0, 0);
  int half = 0;
  for (int64_t at = 0; at < bytes; at += kSegment, half ^= 1) {
    state.queue.synchronize();
    if (at + kSegment < bytes) start(at + kSegment, half ^ 1);
    std::memcpy(to.data() + at, state.down(half),
                static_cast<size_t>(std::min(kSegment, bytes - at)));
  }
}

void Staging::download_later(std::span<std::byte> to, const std::byte* from) {
  State& state = *state_;
  const auto bytes = static_cast<int64_t>(to.size());
  const bool has_room = bytes <= kLater - state.read;
  if (!has_room && !state.is_recording) return download(to, from);
  check(cudaSetDevice(state.queue.index()), "cudaSetDevice");
  std::byte* staged =
      has_room ? state.later() + state.read : state.recorded.take(state.queue.index(), bytes);
  check(cudaMemcpyAsync(staged, from, to.size(), cudaMemcpyDefault, state.queue.handle()),
        "cudaMemcpyAsync");
  state.readings.push_back({to, staged});
  if (has_room) state.read += (bytes + kAlign - 1) / kAlign * kAlign;
}

void Staging::deliver() {
  State& state = *state_;
  for (const Reading& reading : state.readings)
    std::memcpy(reading.to.data(), reading.from, reading.to.size());
  state.readings.clear();
  state.read = 0;
}

void Staging::start_recording() {
  State& state = *state_;
  SXT_CHECK(state.readings.empty(), Internal, "a graph begins before downloads are delivered");
  state.recorded = {};
  state.is_recording = true;
}

void Staging::stop_recording() {
  State& state = *state_;
  state.is_recording = false;
  state.recorded.readings = std::move(state.readings);
  state.recorded.read = state.read;
  state.readings.clear();
  state.read = 0;
}

void Staging::repeat_recorded() {
  State& state = *state_;
  for (const Recorded::Upload& upload : state.recorded.uploads)
    std::memcpy(upload.staged, upload.from.data(), upload.from.size());
  SXT_CHECK(state.readings.empty(), Internal, "a graph begins before downloads are delivered");
  state.readings.assign(state.recorded.readings.begin(), state.recorded.readings.end());
  state.read = state.recorded.read;
}

}  // namespace sextant::gpu

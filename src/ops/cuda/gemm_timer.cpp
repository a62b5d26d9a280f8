#include "ops/cuda/gemm_timer.h"

#include <algorithm>
#include <vector>

#include "tensor/cuda/queue.h"

namespace sextant::cuda {
namespace {

constexpr int kLeastRounds = 3, kMostRounds = 12;
constexpr float kMostMilliseconds = 60;  // after which no further round begins
constexpr float kDropOut = 1.1F;         // of the fastest, after a round
constexpr float kClearlyFaster = 0.98F;  // than the first

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t queue) { check(cudaEventRecord(event_, queue), "cudaEventRecord"); }
  float milliseconds_since(const Event& start) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float out = 0;
    check(cudaEventElapsedTime(&out, start.event_, event_), "cudaEventElapsedTime");
    return out;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Way {
  size_t index = 0;
  float milliseconds = 0;
};

}  // namespace

size_t fastest_of(size_t count, cudaStream_t queue, FunctionRef<bool(size_t)> way) {
  std::vector<Way> ways;
  for (size_t i = 0; i < count; ++i)
    if (way(i)) ways.push_back({i, 0});
  std::vector<Event> events(2 * ways.size());
  float total = 0;
  for (int round = 0; round < kMostRounds && ways.size() > 1; ++round) {
    if (round >= kLeastRounds && total > kMostMilliseconds) break;
    for (size_t i = 0; i < ways.size(); ++i) {
      events[2 * i].record(queue);
      static_cast<void>(way(ways[i].index));
      events[2 * i + 1].record(queue);
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      const float milliseconds = events[2 * i + 1].milliseconds_since(events[2 * i]);
      ways[i].milliseconds += milliseconds;
      total += milliseconds;
    }
    const float least = std::ranges::min(ways, {}, &Way::milliseconds).milliseconds;
    std::erase_if(ways, [&](const Way& own) { return own.milliseconds > least * kDropOut; });
  }
  if (ways.empty()) return 0;
  const Way fastest = std::ranges::min(ways, {}, &Way::milliseconds);
  const bool is_first_there = ways.front().index == 0;
  return is_first_there && fastest.milliseconds > ways.front().milliseconds * kClearlyFaster
             ? 0
             : fastest.index;
}

}  // namespace sextant::cuda

#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace sextant {

// What is known of a span beside its times: texts, or if there are none a number.
struct SpanFact {
  const char* name = "";  // a literal: "flops", "reads"
  double number = 0;
  std::vector<std::string> texts = {};
};

// Another span of the same rank.
struct SpanPlace {
  int lane = 0;
  double begin = 0, end = 0;
};

// Of lanes: from here on they are queues of a GPU, the first that of computation.
inline constexpr int kDeviceLane = 2;

// A timed interval for the timeline.
struct Span {
  const char* kind = "";  // a literal: "step", "compute", "comm", "post", "wait", "optimizer",
                          // "kernel" (on a GPU)
  std::string name;       // "forward layers.3", "reduce_scatter dp #12"
  int rank = 0;
  int lane = 0;  // 0: the rank's own thread, 1: its progress thread, or kDeviceLane ...
  double begin = 0, end = 0;   // of Clock::now
  int64_t bytes = -1;          // of "comm": sent, or received as a message
  std::string message = {};    // of a send and its receive: the same text; "" for other spans
  bool is_received = false;    // the message's end
  std::string lane_name = {};  // "": "compute" or "progress thread"
  std::vector<SpanFact> facts = {};
  std::vector<SpanPlace> waits = {};  // spans that must end before this one begins
};

// Spans of all ranks of a process. Thread-safe.
class SpanLog {
 public:
  void add(Span span) {
    const std::lock_guard lock(mutex_);
    spans_.push_back(std::move(span));
  }
  std::vector<Span> take() {
    const std::lock_guard lock(mutex_);
    return std::move(spans_);
  }

 private:
  std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace sextant

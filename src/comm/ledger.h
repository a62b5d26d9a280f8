#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/call.h"
#include "fault/activity.h"
#include "fault/recorder.h"

namespace sextant {

// What a rank has sent.
struct Traffic {
  int64_t calls = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  Traffic& operator+=(const Traffic& other) {
    calls += other.calls;
    elements += other.elements;
    bytes += other.bytes;
    return *this;
  }
  friend Traffic operator-(const Traffic& a, const Traffic& b) {
    return {a.calls - b.calls, a.elements - b.elements, a.bytes - b.bytes};
  }
  friend Traffic operator*(const Traffic& traffic, int64_t times) {
    return {traffic.calls * times, traffic.elements * times, traffic.bytes * times};
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// Communication statistics of one rank over all of its groups. Its own thread reads and resets
// them.
struct Ledger {
  explicit Ledger(const Clock& clock) : clock(clock) {}

  Traffic total() const {
    Traffic sum;
    for (const Traffic& one : traffic) sum += one;
    return sum;
  }
  void reset() {
    traffic = {};
    control = {};
    exposed_s = 0;
    busy_s = 0;
  }

  const Clock& clock;
  std::array<Traffic, kOperations> traffic{};  // of tensors, by Operation
  Traffic control;                             // TrafficClass::Control and host values
  double exposed_s = 0;                        // exposed communication: the rank's thread waited
  std::atomic<double> busy_s{0};               // all communication, exposed or overlapped
  Recorder recorder;
  Activity activity;
  SpanLog* spans = nullptr;  // timed spans are added here when set
  int rank = 0;              // in the world
};

// Adds a compute span to ledger->spans when it is destroyed; no-op if either is null.
class SpanTimer {
 public:
  SpanTimer(Ledger* ledger, const char* what, const std::string& of)
      : ledger_(ledger != nullptr && ledger->spans != nullptr ? ledger : nullptr) {
    if (ledger_ == nullptr) return;
    name_ = std::string(what) + (of.empty() ? "" : " ") + of;
    begin_ = ledger_->clock.now();
  }
  ~SpanTimer() {
    if (ledger_ == nullptr) return;
    ledger_->spans->add({"compute", name_, ledger_->rank, 0, begin_, ledger_->clock.now()});
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

 private:
  Ledger* ledger_;
  std::string name_;
  double begin_ = 0;
};

}  // namespace sextant

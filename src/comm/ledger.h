#pragma once
#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/traffic.h"
#include "fault/activity.h"
#include "fault/recorder.h"

namespace sextant {

// What a rank's groups of more than one rank are, since its start.
struct GroupCounts {
  int64_t groups = 0;    // beside the world
  int64_t peers = 0;     // other ranks in them
  int64_t channels = 0;  // of messages: each peer of a group that it sent to, or received from
};

// Communication statistics of one rank over all of its groups. Its own thread reads and resets
// them.
struct Ledger {
  explicit Ledger(const Clock& clock) : clock(clock) {}

  void reset() {
    traffic.reset();
    control = {};
    exposed_s = 0;
    exposed_by_axis = {};
    busy_s = 0;
  }

  const Clock& clock;
  TrafficTable traffic;           // of tensors
  Traffic control;                // TrafficClass::Control and host values
  double exposed_s = 0;           // exposed communication: the rank's thread waited
  AxisTimes exposed_by_axis{};    // the part of it that calls of `traffic` make
  GroupCounts groups;             // not reset
  std::atomic<double> busy_s{0};  // all communication, exposed or overlapped
  Recorder recorder;
  Activity activity;
  SpanLog* spans = nullptr;  // timed spans are added here when set
  int rank = 0;              // in the world
};

// Adds a span of the rank's own thread to ledger->spans when it is destroyed; no-op if either is
// null.
class SpanTimer {
 public:
  SpanTimer(Ledger* ledger, const char* what, const std::string& of, const char* kind = "compute")
      : ledger_(ledger != nullptr && ledger->spans != nullptr ? ledger : nullptr), kind_(kind) {
    if (ledger_ == nullptr) return;
    name_ = std::string(what) + (of.empty() ? "" : " ") + of;
    begin_ = ledger_->clock.now();
  }
  ~SpanTimer() {
    if (ledger_ == nullptr) return;
    ledger_->spans->add({kind_, name_, ledger_->rank, 0, begin_, ledger_->clock.now()});
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

 private:
  Ledger* ledger_;
  const char* kind_;
  std::string name_;
  double begin_ = 0;
};

}  // namespace sextant

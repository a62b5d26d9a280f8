#pragma once
#include "trace/trace.h"

namespace sextant {

// What a rank's device and its links do in a second, and what they take before they begin.
struct Rates {
  double flops = 1e12;   // floating-point operations
  double memory = 1e11;  // bytes read and written
  double launch = 0;     // seconds before each operation of the device
  double link = 1e10;    // bytes that a rank sends
  double latency = 0;    // seconds of a message, or of a round of a collective
};

// Seconds that an operation takes once all its ranks are there:
//   compute     launch + max(flops / flops per second, bytes read and written / bytes per second)
//   message     latency + bytes / link, on the side that sends; nothing on the other
//   collective  rounds * latency + bytes that this rank sends / link. All-reduce has two rounds, a
//               reduce-scatter and an all-gather; the others have one
// A collective of one rank costs what it copies. What a fold adds up and what a root receives from
// many at a time is not counted.
double seconds_of(const Rates& rates, const Trace& trace, const TraceOp& op);

}  // namespace sextant

#pragma once
#include "trace/trace.h"

namespace sextant {

// Throughput and latency of a rank's device and links.
struct Rates {
  double flops = 1e12;   // FLOP/s
  double memory = 1e11;  // bytes read and written per second
  double launch = 0;     // seconds before each operation on the device
  double link = 1e10;    // bytes that a rank sends per second
  double latency = 0;    // seconds per message, or per round of a collective
  double host = 0;       // bytes per second to or from the host's memory; 0: as memory has them
};

// Seconds of an operation once all its ranks have started it:
//   compute     launch + max(flops / flops per second, bytes read and written / bytes per second)
//   copy        launch + bytes copied / host bytes per second (offload, the lane "copy")
//   message     latency + bytes / link at the sender; nothing at the receiver
//   collective  rounds * latency + bytes that this rank sends / link. All-reduce has two rounds, a
//               reduce-scatter and an all-gather; the others have one
// A collective of one rank costs its copy. The reduction arithmetic, and contention at a root that
// receives from many ranks, are not modelled.
double seconds_of(const Rates& rates, const Trace& trace, const TraceOp& op);

}  // namespace sextant

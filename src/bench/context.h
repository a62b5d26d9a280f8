#pragma once
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "ops/heads.h"

namespace sextant {

struct ContextOptions {
  Heads heads;                          // of whole sequences
  std::vector<ParallelConfig> layouts;  // only cp, cp_kind and ulysses are used
  int rounds = 3;                       // in turn; the best of each counts
  double timeout_s = 600;               // timeout for another rank
};

// Seconds of one attention.
struct AttentionSeconds {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

// Context parallel attention with one thread per rank, against its ideal: each rank's part of the
// work plus the messages, without overlap.
struct ContextRow {
  ParallelConfig layout;
  Heads heads;                // of whole sequences
  AttentionSeconds alone;     // one rank with one thread, other cores idle
  AttentionSeconds busy;      // one of as many ranks, each with its own whole sequences
  AttentionSeconds messages;  // ContextMessages, from the first rank's start to the last one's end
  AttentionSeconds shared;    // AttentionCore, likewise
  int64_t least_pairs = 0, most_pairs = 0;  // (query, key) pairs per rank, over all heads
  int64_t sent_bytes = 0;                   // of the rank that sends most
  double difference = 0;  // relative, from the results of one rank; largest over the ranks

  double expected() const { return alone.total() / layout.cp + messages.total(); }
  double ratio() const { return shared.total() / expected(); }
  // The same against a core with busy neighbours: the cost of context parallelism without that of a
  // busy machine.
  double busy_ratio() const {
    return shared.total() / (busy.total() / layout.cp + messages.total());
  }
};

// Before timing, every rank's output and gradient are compared with those of one rank, and its
// traffic with ContextMessages: Error(Failure) for differences beyond rounding. All layouts have
// the same number of ranks, at least 2.
std::vector<ContextRow> bench_context(const ContextOptions& options, const Clock& clock, Log& log);

}  // namespace sextant

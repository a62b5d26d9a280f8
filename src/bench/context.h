#pragma once
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "ops/heads.h"

namespace sextant {

struct ContextOptions {
  Heads heads;                          // of whole sequences
  std::vector<ParallelConfig> layouts;  // of which cp, cp_kind and ulysses count
  int rounds = 3;                       // all in turn; the best of each counts
  double deadline_s = 600;              // of a wait for another rank
};

// Seconds of one attention.
struct AttentionSeconds {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

// Attention of ranks of one thread each that share their sequences, beside what it would take if it
// cost nothing but each rank's part of the work and the messages, one after the other.
struct ContextRow {
  ParallelConfig layout;
  Heads heads;                // of whole sequences
  AttentionSeconds alone;     // one rank with one thread, the other cores idle
  AttentionSeconds busy;      // one of as many ranks, each with whole sequences of its own
  AttentionSeconds messages;  // ContextMessages, from the first rank's begin to the last one's end
  AttentionSeconds shared;    // AttentionCore, likewise
  int64_t least_pairs = 0, most_pairs = 0;  // of query and key, over all heads, of a rank
  int64_t sent_bytes = 0;                   // of the rank that sends most
  double difference = 0;  // from the results of one rank, relative, of the rank with the largest

  double expected() const { return alone.total() / layout.cp + messages.total(); }
  double ratio() const { return shared.total() / expected(); }
  // The same against a core whose neighbours work, too: what sharing costs, without what a busy
  // machine costs.
  double busy_ratio() const {
    return shared.total() / (busy.total() / layout.cp + messages.total());
  }
};

// Before anything is timed, every rank's result and gradient are held against those of one rank
// alone, and what it sends against ContextMessages: Error(Failure) where they differ by more than
// rounding. Layouts have equal numbers of ranks, 2 or more.
std::vector<ContextRow> bench_context(const ContextOptions& options, const Clock& clock, Log& log);

}  // namespace sextant

#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/call.h"
#include "comm/mpi_timing.h"

namespace sextant {

// All eleven. Messages go from even ranks to the next odd ones (send) or back (receive); a barrier
// has no size.
std::vector<Operation> timed_operations();
// Those with a limit and a peer: all_reduce, reduce_scatter, all_gather, all_to_all, broadcast.
bool has_limit(Operation operation);

// Parse command line lists, "a,b,c". Error(Usage) names what is wrong and what is valid.
std::vector<Operation> parse_operations(std::string_view text);
std::vector<int> parse_ranks(std::string_view text);      // 1 ... 64 each
std::vector<int64_t> parse_sizes(std::string_view text);  // "1KiB,16MiB", at least 64 bytes each
std::vector<int64_t> default_sizes(int64_t largest);      // 1 KiB, times 16 or 4, up to `largest`

// Minimal bytes that every rank sends per byte of the vector, for bus bandwidth (as in nccl-tests).
double bus_factor(Operation operation, int ranks);

// One f32 collective over threads, its limit if it has one and, if run, MPI's time. Bytes as in
// NativeTask; of the others those of the whole vector.
struct CollectiveRow {
  Operation operation = Operation::AllReduce;
  int ranks = 0;
  int64_t bytes = 0;
  double seconds = 0, limit_seconds = 0;  // per call, best round
  double mpi_seconds = 0;                 // 0: not run

  double bandwidth(double of_seconds) const {  // bus bytes per second; 0 without a time
    return of_seconds > 0 ? bus_factor(operation, ranks) * static_cast<double>(bytes) / of_seconds
                          : 0;
  }
  double limit_ratio() const { return limit_seconds / seconds; }  // 0 without a limit
  double mpi_ratio() const { return mpi_seconds / seconds; }      // > 1: faster than MPI
};

struct CollectiveOptions {
  std::vector<Operation> operations = timed_operations();
  std::vector<int> ranks{2, 4, 8};
  std::vector<int64_t> sizes = default_sizes(int64_t{64} << 20);
  int rounds = 2;          // alternating between ours and the peer
  Turns turns;             // of each per round
  double timeout_s = 120;  // timeout for another rank
  // Seconds of MPI on `ranks` ranks (mpi_peer.h); empty: no peer.
  std::function<std::vector<double>(int ranks, const std::vector<NativeTask>&, const Turns&)> peer;
};

struct CollectiveReport {
  std::vector<CollectiveRow> rows;
  std::vector<std::string> skipped;  // does not fit into memory
  std::string why_no_peer;           // error of the peer, which is not run again
};

// The limit: the collective's reads and writes without the sum (collective_floor.h), on as many
// threads, with one barrier per pass. Limit and collective alternate on the same buffers.
CollectiveReport bench_collectives(const CollectiveOptions& options, const Clock& clock);

}  // namespace sextant

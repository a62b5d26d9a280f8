#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/call.h"
#include "comm/native.h"

namespace sextant {

// What is timed beside a limit: all_reduce, reduce_scatter, all_gather, all_to_all, broadcast.
std::vector<Operation> timed_operations();

// Lists of the command line, "a,b,c". Error(Usage) names what is wrong and what is known.
std::vector<Operation> parse_operations(std::string_view text);
std::vector<int> parse_ranks(std::string_view text);      // 1 ... 64 each
std::vector<int64_t> parse_sizes(std::string_view text);  // "1KiB,16MiB", at least 64 bytes each
std::vector<int64_t> default_sizes(int64_t largest);      // 1 KiB, times 16 or 4, up to `largest`

// Bytes that every rank sends at least, over the bytes of the vector: what bus bandwidth counts.
double bus_factor(Operation operation, int ranks);

// One collective of f32 over threads, its limit and, where it was run, MPI's. Bytes as in
// NativeTask.
struct CollectiveRow {
  Operation operation = Operation::AllReduce;
  int ranks = 0;
  int64_t bytes = 0;
  double seconds = 0, limit_seconds = 0;  // of one call, the best round
  double mpi_seconds = 0;                 // 0: not run

  double bandwidth(double of_seconds) const {  // bus bytes per second; 0 for no time
    return of_seconds > 0 ? bus_factor(operation, ranks) * static_cast<double>(bytes) / of_seconds
                          : 0;
  }
  double limit_ratio() const { return limit_seconds / seconds; }
  double mpi_ratio() const { return mpi_seconds / seconds; }  // > 1: faster than MPI
};

struct CollectiveOptions {
  std::vector<Operation> operations = timed_operations();
  std::vector<int> ranks{2, 4, 8};
  std::vector<int64_t> sizes = default_sizes(int64_t{64} << 20);
  int rounds = 2;           // ours and the peer in turn
  Turns turns;              // of each in a round
  double deadline_s = 120;  // of a wait for another rank
  // Seconds that MPI takes on so many ranks (mpi_peer.h); empty: no peer.
  std::function<std::vector<double>(int ranks, const std::vector<NativeTask>&, const Turns&)> peer;
};

struct CollectiveReport {
  std::vector<CollectiveRow> rows;
  std::vector<std::string> skipped;  // what does not fit into memory
  std::string why_no_peer;           // what the peer failed with; it is not asked again then
};

// The limit: the reads and writes of the collective without the sum (collective_floor.h), by as
// many threads, which meet once in every pass. Limit and collective in turn, on the same buffers.
CollectiveReport bench_collectives(const CollectiveOptions& options, const Clock& clock);

}  // namespace sextant

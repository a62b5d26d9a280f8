#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/algorithms.h"

namespace sextant {

// An f32 all-reduce made of messages over threads: its traffic, counted by the ranks' ledgers, and
// its time.
struct AlgorithmRow {
  Algorithm algorithm = Algorithm::Naive;
  int ranks = 0;
  int64_t bytes = 0;    // of the vector
  int steps = 0;        // sequential messages
  int64_t busiest = 0;  // elements sent by the rank that sends most
  int64_t total = 0;    // elements sent by all ranks
  double seconds = 0;   // best of the repeats
};

// "naive,ring,tree,doubling"; Error(Usage) names what is unknown.
std::vector<Algorithm> parse_algorithms(std::string_view text);

// Every algorithm for every number of ranks and size.
std::vector<AlgorithmRow> bench_algorithms(const std::vector<Algorithm>& algorithms,
                                           const std::vector<int>& ranks,
                                           const std::vector<int64_t>& sizes, int repeats,
                                           const Clock& clock);

}  // namespace sextant

#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/algorithms.h"

namespace sextant {

// An all-reduce of f32 by messages over threads: what it sent, counted by the ranks' ledgers, and
// what it took.
struct AlgorithmRow {
  Algorithm algorithm = Algorithm::Naive;
  int ranks = 0;
  int64_t bytes = 0;    // of the vector
  int steps = 0;        // messages one after another
  int64_t busiest = 0;  // elements that the rank that sends most sends
  int64_t total = 0;    // elements that all send together
  double seconds = 0;   // the best of the repeats
};

// "naive,ring,tree,doubling"; Error(Usage) names what is unknown.
std::vector<Algorithm> parse_algorithms(std::string_view text);

// Every algorithm for every number of ranks and size.
std::vector<AlgorithmRow> bench_algorithms(const std::vector<Algorithm>& algorithms,
                                           const std::vector<int>& ranks,
                                           const std::vector<int64_t>& sizes, int repeats,
                                           const Clock& clock);

}  // namespace sextant

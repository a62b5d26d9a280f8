#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace sextant {

// Ways to all-reduce by messages alone. The transports fold in rank order in ways of their own;
// these are for counting and timing what each way moves (elements of a vector of N over n ranks):
//              steps one after another    sent by the busiest rank    sent in all
//   Naive      2 (n-1)                    (n-1) N, the root           2 (n-1) N
//   Ring       2 (n-1)                    2 (n-1)/n N, every rank     2 (n-1) N
//   Tree       2 ceil(lg n)               ceil(lg n) N, the root      2 (n-1) N
//   Doubling   lg n                       lg n N, every rank          n lg n N
// Doubling, n no power of two (m the next lower one, x = n - m): 2 more steps, N more on x ranks.
enum class Algorithm : uint8_t { Naive, Ring, Tree, Doubling };
const char* name_of(Algorithm algorithm);  // "naive"
std::vector<Algorithm> all_algorithms();
std::optional<Algorithm> find_algorithm(std::string_view name);

int steps_of(Algorithm algorithm, int ranks);

// data = its sum over the ranks: the same bits on all of them, but for each algorithm its own
// (Naive folds in rank order, as Communicator::all_reduce does). f32; takes room for one more
// vector (Ring: for one of its n parts) from the arena.
void all_reduce_by(Stream& stream, Communicator& group, Tensor& data, Algorithm algorithm);

}  // namespace sextant

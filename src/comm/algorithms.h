#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace sextant {

// All-reduce algorithms built from messages. Communicator::all_reduce does not use them; they serve
// to count and time what each algorithm sends (elements, for a vector of N over n ranks):
//              sequential steps           sent by the busiest rank    sent in total
//   Naive      2 (n-1)                    (n-1) N, the root           2 (n-1) N
//   Ring       2 (n-1)                    2 (n-1)/n N, every rank     2 (n-1) N
//   Tree       2 ceil(lg n)               ceil(lg n) N, the root      2 (n-1) N
//   Doubling   lg n                       lg n N, every rank          n lg n N
// Doubling where n is no power of two: 2 more steps, and n - m ranks send N more each, with m the
// largest power of two below n.
enum class Algorithm : uint8_t { Naive, Ring, Tree, Doubling };
const char* name_of(Algorithm algorithm);  // "naive"
std::vector<Algorithm> all_algorithms();
std::optional<Algorithm> find_algorithm(std::string_view name);

int steps_of(Algorithm algorithm, int ranks);

// data = its sum over the ranks, f32. All ranks get the same bits; algorithms differ in rounding
// (Naive sums in rank order, as Communicator::all_reduce does). Allocates a receive buffer of the
// size of data (Ring: of 1/n of it) from the arena.
void all_reduce_by(Stream& stream, Communicator& group, Tensor& data, Algorithm algorithm);

}  // namespace sextant

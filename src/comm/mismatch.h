#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace sextant {

// The words in which transports tell of calls that do not fit together or never came.

// "dp, call #7: rank 0, 2 made all_reduce sum of 4 f32; rank 1 made barrier". What each rank of a
// group called, in the order of the ranks.
std::string describe_mismatch(const std::string& group, int64_t sequence,
                              std::span<const std::string> calls);

// "0, 3", or "0 (world 4), 3 (world 7)" where the two differ.
std::string list_ranks(std::span<const int> ranks, const std::function<int(int)>& world_rank);

}  // namespace sextant

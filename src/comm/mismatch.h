#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace sextant {

// "group dp, call 7: ranks 0 2 called all_reduce sum of 4 f32, rank 1 called barrier". `calls`:
// what each rank of the group called, in the order of the ranks.
std::string describe_mismatch(const std::string& group, int64_t sequence,
                              std::span<const std::string> calls);

// "rank 3", "ranks 0 3", or "ranks 0 3 (4 7 in the world)" where the two differ.
std::string list_ranks(std::span<const int> ranks, const std::function<int(int)>& world_rank);

}  // namespace sextant

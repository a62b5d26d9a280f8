#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "comm/call.h"

namespace sextant {

// Error texts of transports for calls that differ between ranks; late.h has those for timeouts.

// "group dp, call 7", "group activations, message 3".
std::string place_of(const std::string& group, const Call& call);

// "group dp, call 7: rank 0, 2 made all_reduce sum of 4 f32; rank 1 made barrier".
//   calls: to_string of each rank's call, by rank
std::string describe_mismatch(const std::string& group, const Call& call,
                              std::span<const std::string> calls);
// "group dp, message 3: rank 0 made send of 4 f32 to 1; rank 1 made receive of 8 f32 from 0".
std::string describe_mismatch(const std::string& group, const Call& call, int sender,
                              const std::string& send, int receiver, const std::string& receive);

// A hash of what must be equal on all ranks of a collective, or at both ends of a message. The
// split sizes of an all-to-all are compared pair by pair instead.
uint64_t agreement_key(const Call& call);

// "0, 3", or "0 (world 4), 3 (world 7)" where the two differ.
std::string list_ranks(std::span<const int> ranks, const std::function<int(int)>& world_rank);

}  // namespace sextant

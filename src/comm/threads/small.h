#pragma once
// The cost of a small collective is synchronization, not bytes. Each rank posts a copy of its input
// and computes its whole output from all copies. No rank touches another's tensors, so no second
// synchronization is needed (slots.cpp). The functions on this path are inline.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "comm/call.h"

namespace sextant::threads {

// Fields of an identity, from the lowest bits up. The operation is stored plus 1 and is never 255,
// so no identity is 0 or kLarge.
inline constexpr int kOperationBits = 8, kTypeBits = 8, kReduceOpBits = 4, kIntoBits = 4,
                     kRootBits = 16;
inline constexpr int64_t kMostRanks = int64_t{1} << kRootBits;
inline constexpr int64_t kMostElements =
    int64_t{1} << (64 - kOperationBits - kTypeBits - kReduceOpBits - kIntoBits - kRootBits);
inline constexpr uint64_t kLarge =
    ~uint64_t{0};  // identity of every large call: see CallSlots::call

// Everything that ranks must agree on in a small call, packed into one word.
inline uint64_t identity_of(const Call& call) {
  uint64_t identity = static_cast<uint64_t>(call.count);
  identity = identity << kRootBits | static_cast<uint64_t>(call.root);
  identity = identity << kIntoBits | static_cast<uint64_t>(call.into);
  identity = identity << kReduceOpBits | static_cast<uint64_t>(call.reduce_op);
  identity = identity << kTypeBits | static_cast<uint64_t>(call.dtype);
  return identity << kOperationBits | (static_cast<uint64_t>(call.operation) + 1);
}
Call call_of(uint64_t identity);

inline constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max();  // cannot be small
// Bytes that a rank copies into its slot if the call is small: the maximum over all ranks.
inline int64_t posted_bytes(const Call& call, int ranks) {
  // The sizes of an uneven split_sizes are in the memory of their rank.
  if (!call.split_sizes.is_even() || !call.receive_split_sizes.is_even()) return kTooMuch;
  if (ranks > kMostRanks || call.count >= kMostElements) return kTooMuch;
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return (call.count + ranks - 1) / ranks * size;
    case Operation::AllToAll:  // only if all ranks send and receive the same number
      return call.count == call.received && call.count % ranks == 0 ? call.count * size : kTooMuch;
    case Operation::AllReduce:
    case Operation::ReduceScatter:
    case Operation::Broadcast:
    case Operation::Barrier:
      return call.count * size;
    default:
      return kTooMuch;
  }
}

// Bytes that the other ranks read from this rank.
inline int64_t input_bytes(const Call& call, int ranks, int rank) {
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return even_part(call.count, ranks, rank).size() * size;
    case Operation::Broadcast:
      return rank == call.root ? call.count * size : 0;
    case Operation::Barrier:
      return 0;
    default:
      return call.count * size;
  }
}

// Copies into `posted` what the other ranks read from this rank.
inline void post_input(std::byte* posted, const Call& call, int ranks, int rank) {
  const std::byte* from = call.operation == Operation::Broadcast ? call.out : call.in;
  if (call.operation == Operation::AllToAll) {  // the other ranks do not read its own part
    const int64_t part = call.count / ranks * size_of(call.dtype), own = rank * part;
    std::memcpy(posted, from, static_cast<size_t>(own));
    std::memcpy(posted + own + part, from + own + part,
                static_cast<size_t>((ranks - rank - 1) * part));
    return;
  }
  const int64_t bytes = input_bytes(call, ranks, rank);
  if (bytes > 0) std::memcpy(posted, from, static_cast<size_t>(bytes));
}

// Computes this rank's whole output from the copies of all ranks; may change the pointers.
void do_small(const Call& call, std::span<const std::byte*> posted, int rank);

}  // namespace sextant::threads

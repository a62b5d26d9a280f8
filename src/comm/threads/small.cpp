// A small call costs its meetings, not its bytes. Each rank shows a copy of its input and makes its
// whole output by itself from those of all, so nobody touches another's memory and nobody waits
// until all are done (slots.cpp).
#include <array>
#include <cstring>

#include "comm/fold.h"
#include "comm/threads/meeting.h"

namespace sextant::threads {
namespace {

// Fields of an identity, from the lowest bits up. The operation is counted from 1 and never 255, so
// no identity is 0 or kLarge.
constexpr int kOperationBits = 8, kTypeBits = 8, kFoldBits = 4, kIntoBits = 4, kRootBits = 16;
constexpr int64_t kMostRanks = int64_t{1} << kRootBits;
constexpr int64_t kMostElements =
    int64_t{1} << (64 - kOperationBits - kTypeBits - kFoldBits - kIntoBits - kRootBits);

// Bytes that the others read of this rank.
int64_t input_bytes(const Call& call, int ranks, int rank) {
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return share_of(call.count, ranks, rank).size() * size;
    case Operation::Broadcast:
      return rank == call.root ? call.count * size : 0;
    case Operation::Barrier:
      return 0;
    default:
      return call.count * size;
  }
}

}  // namespace

bool is_small(const Call& call, int ranks, int64_t most) {
  // The sizes of an uneven cut lie in their rank's memory.
  if (!call.cut.is_even() || !call.receive_cut.is_even()) return false;
  if (ranks > kMostRanks || call.count >= kMostElements) return false;
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return (call.count + ranks - 1) / ranks * size <= most;
    case Operation::AllToAll:  // what all send and receive is as much
      return call.count == call.received && call.count % ranks == 0 && call.count * size <= most;
    case Operation::AllReduce:
    case Operation::ReduceScatter:
    case Operation::Broadcast:
    case Operation::Barrier:
      return call.count * size <= most;
    default:
      return false;
  }
}

uint64_t identity_of(const Call& call) {
  uint64_t identity = static_cast<uint64_t>(call.count);
  identity = identity << kRootBits | static_cast<uint64_t>(call.root);
  identity = identity << kIntoBits | static_cast<uint64_t>(call.into);
  identity = identity << kFoldBits | static_cast<uint64_t>(call.fold);
  identity = identity << kTypeBits | static_cast<uint64_t>(call.dtype);
  return identity << kOperationBits | (static_cast<uint64_t>(call.operation) + 1);
}

Call call_of(uint64_t identity) {
  const auto take = [&](int bits) {
    const uint64_t field = identity & ((uint64_t{1} << bits) - 1);
    identity >>= bits;
    return field;
  };
  Call call;
  call.operation = static_cast<Operation>(take(kOperationBits) - 1);
  call.dtype = static_cast<DType>(take(kTypeBits));
  call.fold = static_cast<Fold>(take(kFoldBits));
  call.into = static_cast<Into>(take(kIntoBits));
  call.root = static_cast<int>(take(kRootBits));
  call.count = static_cast<int64_t>(identity);
  if (call.operation == Operation::AllToAll) call.received = call.count;
  return call;
}

void show_input(std::byte* shown, const Call& call, int ranks, int rank) {
  const std::byte* from = call.operation == Operation::Broadcast ? call.out : call.in;
  const int64_t bytes = input_bytes(call, ranks, rank);
  if (bytes > 0) std::memcpy(shown, from, static_cast<size_t>(bytes));
}

void do_small(const Call& call, std::span<const std::byte*> shown, int rank) {
  const int64_t size = size_of(call.dtype);
  const auto ranks = static_cast<int>(shown.size());
  switch (call.operation) {
    case Operation::AllReduce:
      return fold_into(call.out, shown, call.count, call.dtype, call.fold);
    case Operation::ReduceScatter: {
      const Share own = share_of(call.count, ranks, rank);
      for (const std::byte*& input : shown) input += own.begin * size;
      return fold_into(call.out, shown, own.size(), call.dtype, call.fold, call.into);
    }
    case Operation::AllGather:
      for (int peer = 0; peer < ranks; ++peer) {
        const Share part = share_of(call.count, ranks, peer);
        copy_into(call.out + part.begin * size, shown[static_cast<size_t>(peer)],
                  part.size() * size);
      }
      return;
    case Operation::AllToAll: {
      const int64_t part = call.count / ranks * size;
      for (int peer = 0; peer < ranks; ++peer)
        copy_into(call.out + peer * part, shown[static_cast<size_t>(peer)] + rank * part, part);
      return;
    }
    default:
      return;
  }
}

}  // namespace sextant::threads

// A small call costs its meetings, not its bytes. Each rank shows a copy of its input and makes its
// whole output by itself from those of all, so nobody touches another's memory and nobody waits
// until all are done: a rank looks for that when it wants to show the next call in the same cell.
#include <cstring>

#include "comm/fold.h"
#include "comm/threads/meeting.h"

namespace sextant::threads {
namespace {

// Bytes that the others read of this rank.
int64_t input_bytes(const Call& call, int ranks, int rank) {
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return part_size(call.cut, call.count, ranks, rank) * size;
    case Operation::Broadcast:
      return rank == call.root ? call.count * size : 0;
    case Operation::Barrier:
      return 0;
    default:
      return call.count * size;
  }
}

}  // namespace

bool is_small(const Call& call, int ranks) {
  // The sizes of an uneven cut lie in their rank's memory.
  if (!call.cut.is_even() || !call.receive_cut.is_even()) return false;
  const int64_t size = size_of(call.dtype);
  switch (call.operation) {
    case Operation::AllGather:
      return share_of(call.count, ranks, 0).size() * size <= kSmall;
    case Operation::AllReduce:
    case Operation::ReduceScatter:
    case Operation::AllToAll:
    case Operation::Broadcast:
    case Operation::Barrier:
      return call.count * size <= kSmall;
    default:
      return false;
  }
}

void show_input(Cell& cell, int ranks, int rank) {
  Call& call = cell.call;
  const std::byte* from = call.operation == Operation::Broadcast ? call.out : call.in;
  const int64_t bytes = input_bytes(call, ranks, rank);
  if (bytes > 0) std::memcpy(cell.input.data(), from, static_cast<size_t>(bytes));
  call.in = cell.input.data();
}

void do_small(Meeting& meeting) {
  const Call& call = meeting.call(meeting.rank);
  const int64_t size = size_of(call.dtype);
  const int ranks = meeting.size();
  switch (call.operation) {
    case Operation::AllReduce:
      return fold_into(call.out, meeting.inputs_at(0), call.count, call.dtype, call.fold);
    case Operation::ReduceScatter: {
      const Share part = share_of(call.count, ranks, meeting.rank);
      return fold_into(call.out, meeting.inputs_at(part.begin * size), part.size(), call.dtype,
                       call.fold, call.into);
    }
    case Operation::AllGather:
      for (int rank = 0; rank < ranks; ++rank) {
        const Share part = share_of(call.count, ranks, rank);
        copy_into(call.out + part.begin * size, meeting.call(rank).in, part.size() * size);
      }
      return;
    case Operation::AllToAll:
      return do_part(meeting);  // each fetches its own there too
    case Operation::Broadcast:
      if (meeting.rank != call.root)
        copy_into(call.out, meeting.call(call.root).in, call.count * size);
      return;
    default:
      return;
  }
}

}  // namespace sextant::threads

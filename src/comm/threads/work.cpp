// The ranks divide the work by what is written: in all_reduce and reduce rank r folds the rth slice
// of all inputs, elsewhere it fetches what goes into its own output, or brings what it has to the
// only output there is. Slices are folded by tiles that stay in the cache until they have been
// written to every output.
#include <algorithm>

#include "comm/fold.h"
#include "comm/threads/meeting.h"

namespace sextant::threads {
namespace {

constexpr int64_t kTile = 16 << 10;  // bytes
constexpr int64_t kLine = 64;        // bytes

// The slice of a vector that a rank folds, cut between cache lines.
Share slice_of(const Meeting& meeting, const Call& call) {
  const int64_t line = kLine / size_of(call.dtype);
  const int64_t lines = (call.count + line - 1) / line;
  const Share share = share_of(lines, meeting.size(), meeting.rank);
  return {std::min(share.begin * line, call.count), std::min(share.end * line, call.count)};
}

// in[k] of every rank, from this element on.
std::span<const std::byte* const> inputs_at(Meeting& meeting, int64_t element, int64_t size) {
  for (int rank = 0; rank < meeting.size(); ++rank)
    meeting.inputs[static_cast<size_t>(rank)] = meeting.call(rank).in + element * size;
  return meeting.inputs;
}

void all_reduce(Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype), tile = kTile / size;
  const Share slice = slice_of(meeting, call);
  for (int64_t begin = slice.begin; begin < slice.end; begin += tile) {
    const int64_t count = std::min(tile, slice.end - begin);
    std::byte* own = call.out + begin * size;
    fold_into(own, inputs_at(meeting, begin, size), count, call.dtype, call.fold);
    for (int step = 1; step < meeting.size(); ++step) {
      const int rank = (meeting.rank + step) % meeting.size();
      copy_into(meeting.call(rank).out + begin * size, own, count * size);
    }
  }
}

void reduce(Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype), tile = kTile / size;
  const Share slice = slice_of(meeting, call);
  std::byte* out = meeting.call(call.root).out;
  for (int64_t begin = slice.begin; begin < slice.end; begin += tile)
    fold_into(out + begin * size, inputs_at(meeting, begin, size),
              std::min(tile, slice.end - begin), call.dtype, call.fold);
}

void reduce_scatter(Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Share part = call.cut.part(call.count, meeting.size(), meeting.rank);
  fold_into(call.out, inputs_at(meeting, part.begin, size), part.size(), call.dtype, call.fold,
            call.into);
}

void all_gather(const Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype);
  for (int step = 0; step < meeting.size(); ++step) {
    const int rank = (meeting.rank + step) % meeting.size();
    const Share part = call.cut.part(call.count, meeting.size(), rank);
    copy_into(call.out + part.begin * size, meeting.call(rank).in, part.size() * size);
  }
}

void all_to_all(const Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype);
  for (int step = 0; step < meeting.size(); ++step) {
    const int rank = (meeting.rank + step) % meeting.size();
    const Call& sender = meeting.call(rank);
    const Share to = call.receive_cut.part(call.received, meeting.size(), rank);
    const Share from = sender.cut.part(sender.count, meeting.size(), meeting.rank);
    copy_into(call.out + to.begin * size, sender.in + from.begin * size, to.size() * size);
  }
}

void broadcast(const Meeting& meeting, const Call& call) {
  copy_into(call.out, meeting.call(call.root).out, call.count * size_of(call.dtype));
}

void scatter(const Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Share part = call.cut.part(call.count, meeting.size(), meeting.rank);
  copy_into(call.out, meeting.call(call.root).in + part.begin * size, part.size() * size);
}

void gather(const Meeting& meeting, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Share part = call.cut.part(call.count, meeting.size(), meeting.rank);
  copy_into(meeting.call(call.root).out + part.begin * size, call.in, part.size() * size);
}

}  // namespace

void do_part(Meeting& meeting) {
  const Call& call = meeting.call(meeting.rank);
  switch (call.operation) {
    case Operation::AllReduce:
      return all_reduce(meeting, call);
    case Operation::ReduceScatter:
      return reduce_scatter(meeting, call);
    case Operation::AllGather:
      return all_gather(meeting, call);
    case Operation::AllToAll:
      return all_to_all(meeting, call);
    case Operation::Broadcast:
      return broadcast(meeting, call);
    case Operation::Scatter:
      return scatter(meeting, call);
    case Operation::Gather:
      return gather(meeting, call);
    case Operation::Reduce:
      return reduce(meeting, call);
    case Operation::Barrier:
    case Operation::Send:
    case Operation::Receive:
      return;
  }
}

}  // namespace sextant::threads

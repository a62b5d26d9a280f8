// Each rank computes an even slice of the whole vector, however the call splits it, and writes the
// result to every output that contains part of the slice. All inputs are read once, and all ranks
// have equal work even if one part is larger than the others.
#include <algorithm>

#include "comm/reduce.h"
#include "comm/threads/rendezvous.h"

namespace sextant::threads {
namespace {

// Tile sizes in bytes: a tile stays in the cache while it is copied to each output. Storing each
// reduced block to all outputs at once instead was several times slower with four ranks.
constexpr int64_t kFoldTile = 8 << 10, kTile = 16 << 10;
constexpr int64_t kLine = 64;  // bytes
// A call that touches more bytes than this, over all ranks, evicts them from every cache.
constexpr int64_t kCached = 24 << 20;

// The slice of a vector that this rank computes, aligned to cache lines.
Range slice_of(const Rendezvous& rendezvous, const Call& call) {
  const int64_t line = kLine / size_of(call.dtype);
  const int64_t lines = (call.count + line - 1) / line;
  const Range share = even_part(lines, rendezvous.size(), rendezvous.rank);
  return {std::min(share.begin * line, call.count), std::min(share.end * line, call.count)};
}

// f(range) over the tiles of a range, `tile` elements each.
template <class F>
void for_tiles(const Range& range, int64_t tile, F&& f) {
  for (int64_t begin = range.begin; begin < range.end; begin += tile)
    f(Range{begin, std::min(begin + tile, range.end)});
}

// f(owner, offset of its part, range) for each part that overlaps this rank's slice.
template <class F>
void for_parts(const Rendezvous& rendezvous, const Call& call, F&& f) {
  const Range slice = slice_of(rendezvous, call);
  Range part;
  for (int owner = 0; owner < rendezvous.size(); ++owner) {
    part = {part.end, part.end + part_size(call.split_sizes, call.count, rendezvous.size(), owner)};
    const Range range = overlap(part, slice);
    if (range.size() > 0) f(owner, part.begin, range);
  }
}

// Non-temporal stores for large outputs that were not just read.
Stores stores_for(const Call& call, int64_t touched) {
  return touched * size_of(call.dtype) > kCached ? Stores::Streaming : Stores::Cached;
}

void all_reduce(Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  // Storing from registers is faster for few outputs, and for more while all are in the cache.
  if (has_reduce_to_all(rendezvous.size()) &&
      (rendezvous.size() <= 4 ||
       stores_for(call, call.count * rendezvous.size()) == Stores::Cached)) {
    const Range slice = slice_of(rendezvous, call);
    for (int rank = 0; rank < rendezvous.size(); ++rank)
      rendezvous.outputs[static_cast<size_t>(rank)] =
          rendezvous.call(rank).out + slice.begin * size;
    return reduce_to_all(rendezvous.outputs, rendezvous.inputs_at(slice.begin * size), slice.size(),
                         call.dtype, call.reduce_op);
  }
  for_tiles(slice_of(rendezvous, call), kFoldTile / size, [&](const Range& tile) {
    std::byte* own = call.out + tile.begin * size;
    reduce_into(own, rendezvous.inputs_at(tile.begin * size), tile.size(), call.dtype,
                call.reduce_op);
    for (int rank = 0; rank < rendezvous.size(); ++rank)
      copy_into(rendezvous.call(rank).out + tile.begin * size, own, tile.size() * size);
  });
}

void reduce(Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Range slice = slice_of(rendezvous, call);
  reduce_into(rendezvous.call(call.root).out + slice.begin * size,
              rendezvous.inputs_at(slice.begin * size), slice.size(), call.dtype, call.reduce_op);
}

void reduce_scatter(Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  for_parts(rendezvous, call, [&](int owner, int64_t offset, const Range& range) {
    const Call& to = rendezvous.call(owner);
    const bool in_place = to.out == to.in + offset * size;
    reduce_into(to.out + (range.begin - offset) * size, rendezvous.inputs_at(range.begin * size),
                range.size(), call.dtype, call.reduce_op, call.into,
                in_place ? Stores::Cached : stores_for(call, call.count * (rendezvous.size() + 1)));
  });
}

// Copies a tile to every rank's output, except to where it already is.
void copy_to_all(const Rendezvous& rendezvous, const Call& call, const Range& tile,
                 const std::byte* from) {
  const int64_t size = size_of(call.dtype);
  const Stores stores = stores_for(call, call.count * (rendezvous.size() + 1));
  Source source = Source::Memory;
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    std::byte* to = rendezvous.call(rank).out + tile.begin * size;
    if (to == from) continue;
    copy_into(to, from, tile.size() * size, stores, source);
    source = Source::Cache;
  }
}

void all_gather(const Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  for_parts(rendezvous, call, [&](int owner, int64_t offset, const Range& range) {
    const std::byte* in = rendezvous.call(owner).in;
    for_tiles(range, kTile / size, [&](const Range& tile) {
      copy_to_all(rendezvous, call, tile, in + (tile.begin - offset) * size);
    });
  });
}

void broadcast(const Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const std::byte* in = rendezvous.call(call.root).out;
  for_tiles(slice_of(rendezvous, call), kTile / size, [&](const Range& tile) {
    copy_to_all(rendezvous, call, tile, in + tile.begin * size);
  });
}

// In the next three operations each rank copies its own output directly.
void all_to_all(const Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Stores stores = stores_for(call, 2 * call.received * rendezvous.size());
  Range to;
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    const Call& sender = rendezvous.call(rank);
    to = {to.end,
          to.end + part_size(call.receive_split_sizes, call.received, rendezvous.size(), rank)};
    const Range from = sender.split_sizes.part(sender.count, rendezvous.size(), rendezvous.rank);
    copy_into(call.out + to.begin * size, sender.in + from.begin * size, to.size() * size, stores);
  }
}

void scatter(const Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Range part = call.split_sizes.part(call.count, rendezvous.size(), rendezvous.rank);
  copy_into(call.out, rendezvous.call(call.root).in + part.begin * size, part.size() * size,
            stores_for(call, call.count));
}

void gather(const Rendezvous& rendezvous, const Call& call) {
  const int64_t size = size_of(call.dtype);
  const Range part = call.split_sizes.part(call.count, rendezvous.size(), rendezvous.rank);
  copy_into(rendezvous.call(call.root).out + part.begin * size, call.in, part.size() * size,
            stores_for(call, call.count));
}

void do_part_of(Rendezvous& rendezvous, const Call& call) {
  switch (call.operation) {
    case Operation::AllReduce:
      return all_reduce(rendezvous, call);
    case Operation::ReduceScatter:
      return reduce_scatter(rendezvous, call);
    case Operation::AllGather:
      return all_gather(rendezvous, call);
    case Operation::AllToAll:
      return all_to_all(rendezvous, call);
    case Operation::Broadcast:
      return broadcast(rendezvous, call);
    case Operation::Scatter:
      return scatter(rendezvous, call);
    case Operation::Gather:
      return gather(rendezvous, call);
    case Operation::Reduce:
      return reduce(rendezvous, call);
    case Operation::Barrier:
    case Operation::Send:
    case Operation::Receive:
      return;
  }
}

}  // namespace

void do_part(Rendezvous& rendezvous) {
  do_part_of(rendezvous, rendezvous.call(rendezvous.rank));
  finish_stores();
}

}  // namespace sextant::threads

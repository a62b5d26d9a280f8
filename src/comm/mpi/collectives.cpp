// Reductions: each rank receives the slices that it reduces, piece by piece, into the two halves of
// the staging memory (double buffering): it reduces one half in rank order while the other fills.
#include <algorithm>

#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/mpi/group.h"
#include "comm/reduce.h"

namespace sextant::mpi {
namespace {

void wait_for_peers(const Group& group, const Call& call, Requests& requests) {
  if (requests.wait() == Requests::End::Late) fail_late(group, call, requests, "did not call");
}

void wait_for_data(const Group& group, const Call& call, Requests& requests) {
  if (requests.wait() == Requests::End::Late)
    fail_late(group, call, requests, "came, but neither sent nor took the data of");
}

template <class T>
std::byte* bytes_of(T& value) {
  return reinterpret_cast<std::byte*>(&value);
}

[[noreturn]] void refuse(const Group& group, const Call& call, std::span<const Header> headers) {
  std::vector<std::string> calls;
  for (const Header& header : headers) {
    calls.emplace_back(header.text);
    if (header.sequence != call.sequence) calls.back() += concat(" as its call ", header.sequence);
  }
  throw Error(Fault::Peer, describe_mismatch(group.name, call, calls));
}

// All ranks exchange headers, so that no data moves unless all make the same call.
std::vector<Header> meet(Group& group, const Call& call) {
  const Header own = header_of(call);
  std::vector<Header> all(group.world_ranks.size(), own);
  {
    Requests requests(group.process);
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank) continue;
      Header& other = all[static_cast<size_t>(peer)];
      requests.receive(bytes_of(other), sizeof other, group.world(peer), group.tag(Kind::Header),
                       peer);
      requests.send(reinterpret_cast<const std::byte*>(&own), sizeof own, group.world(peer),
                    group.tag(Kind::Header), peer);
    }
    wait_for_peers(group, call, requests);
  }
  for (const Header& other : all)
    if (other.key != own.key || other.sequence != own.sequence) refuse(group, call, all);
  return all;
}

// A share of a vector, in bytes.
struct Block {
  int64_t begin = 0, bytes = 0;
};

Block block_of(const Range& share, DType dtype) {
  return {share.begin * size_of(dtype), share.size() * size_of(dtype)};
}

Block part_of(const Group& group, const Call& call, int rank) {
  return block_of(call.split_sizes.part(call.count, group.size(), rank), call.dtype);
}

void copy_own(std::byte* out, const std::byte* in, int64_t bytes) {
  if (out != in && bytes > 0) copy_into(out, in, bytes);
}

// Reduce-scatter: out = this rank's share, reduced over `in` of all ranks.
//   shares: of the call.count elements, by rank
void reduce_shares(Group& group, const Call& call, std::byte* out, std::span<const Range> shares) {
  const int64_t element = size_of(call.dtype);
  const std::span<std::byte> staging = group.process.staging();
  const int peers = std::max(1, group.size() - 1);
  const int64_t piece = static_cast<int64_t>(staging.size()) / 2 / peers / 64 * 64 / element;
  const Range own = shares[static_cast<size_t>(group.rank)];
  int64_t longest = 0;
  for (const Range& share : shares) longest = std::max(longest, share.size());
  const int64_t steps = (longest + piece - 1) / piece;
  const auto chunk = [&](const Range& share, int64_t step) {
    const int64_t begin = std::min(share.end, share.begin + step * piece);
    return block_of({begin, std::min(share.end, begin + piece)}, call.dtype);
  };
  const auto slot = [&](int peer, int64_t step) {
    const int64_t index = (step % 2) * peers + (peer < group.rank ? peer : peer - 1);
    return staging.data() + index * piece * element;
  };
  Requests halves[2] = {Requests(group.process), Requests(group.process)};
  const auto post = [&](int64_t step) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank) continue;
      halves[step % 2].receive(slot(peer, step), chunk(own, step).bytes, group.world(peer),
                               group.tag(Kind::Data), peer);
      const Block theirs = chunk(shares[static_cast<size_t>(peer)], step);
      halves[step % 2].send(call.in + theirs.begin, theirs.bytes, group.world(peer),
                            group.tag(Kind::Data), peer);
    }
  };
  std::vector<const std::byte*> inputs(group.world_ranks.size());
  if (steps > 0) post(0);
  for (int64_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) post(step + 1);
    wait_for_data(group, call, halves[step % 2]);
    const Block mine = chunk(own, step);
    if (mine.bytes == 0) continue;
    for (int rank = 0; rank < group.size(); ++rank)
      inputs[static_cast<size_t>(rank)] =
          rank == group.rank ? call.in + mine.begin : slot(rank, step);
    reduce_into(out + mine.begin - own.begin * element, inputs, mine.bytes / element, call.dtype,
                call.reduce_op, call.into);
  }
}

std::vector<Range> split_shares(const Group& group, const Call& call) {
  std::vector<Range> shares;
  shares.reserve(group.world_ranks.size());
  for (int rank = 0; rank < group.size(); ++rank)
    shares.push_back(call.split_sizes.part(call.count, group.size(), rank));
  return shares;
}

// The root reduces the whole vector, the others nothing.
std::vector<Range> root_shares(const Group& group, const Call& call) {
  std::vector<Range> shares(group.world_ranks.size());
  shares[static_cast<size_t>(call.root)] = {0, call.count};
  return shares;
}

// All-gather of the parts; this rank's own part is in `out` already.
void spread_parts(Group& group, const Call& call) {
  const Block own = part_of(group, call, group.rank);
  Requests requests(group.process);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank) continue;
    const Block theirs = part_of(group, call, peer);
    requests.receive(call.out + theirs.begin, theirs.bytes, group.world(peer),
                     group.tag(Kind::Data), peer);
    requests.send(call.out + own.begin, own.bytes, group.world(peer), group.tag(Kind::Data), peer);
  }
  wait_for_data(group, call, requests);
}

void broadcast(Group& group, const Call& call) {
  const int64_t bytes = call.count * size_of(call.dtype);
  Requests requests(group.process);
  if (group.rank != call.root)
    requests.receive(call.out, bytes, group.world(call.root), group.tag(Kind::Data), call.root);
  for (int peer = 0; peer < group.size() && group.rank == call.root; ++peer)
    if (peer != call.root)
      requests.send(call.out, bytes, group.world(peer), group.tag(Kind::Data), peer);
  wait_for_data(group, call, requests);
}

void scatter(Group& group, const Call& call) {
  const Block own = part_of(group, call, group.rank);
  Requests requests(group.process);
  if (group.rank != call.root)
    requests.receive(call.out, own.bytes, group.world(call.root), group.tag(Kind::Data), call.root);
  for (int peer = 0; peer < group.size() && group.rank == call.root; ++peer) {
    const Block theirs = part_of(group, call, peer);
    if (peer == group.rank)
      copy_own(call.out, call.in + own.begin, own.bytes);
    else
      requests.send(call.in + theirs.begin, theirs.bytes, group.world(peer), group.tag(Kind::Data),
                    peer);
  }
  wait_for_data(group, call, requests);
}

void gather(Group& group, const Call& call) {
  const Block own = part_of(group, call, group.rank);
  Requests requests(group.process);
  if (group.rank != call.root)
    requests.send(call.in, own.bytes, group.world(call.root), group.tag(Kind::Data), call.root);
  for (int peer = 0; peer < group.size() && group.rank == call.root; ++peer) {
    const Block theirs = part_of(group, call, peer);
    if (peer == group.rank)
      copy_own(call.out + own.begin, call.in, own.bytes);
    else
      requests.receive(call.out + theirs.begin, theirs.bytes, group.world(peer),
                       group.tag(Kind::Data), peer);
  }
  wait_for_data(group, call, requests);
}

// All ranks exchange their sizes, so that all of them notice when those of a pair differ.
void compare_sizes(Group& group, const Call& call, std::span<const Header> headers) {
  const int ranks = group.size();
  std::vector<int64_t> sizes(static_cast<size_t>(2 * ranks * ranks));  // [rank, to or from, peer]
  const auto row = [&](int rank) { return sizes.data() + 2 * ranks * rank; };
  for (int peer = 0; peer < ranks; ++peer) {
    row(group.rank)[peer] = call.split_sizes.part(call.count, ranks, peer).size();
    row(group.rank)[ranks + peer] =
        call.receive_split_sizes.part(call.received, ranks, peer).size();
  }
  const int64_t bytes = 2 * ranks * static_cast<int64_t>(sizeof(int64_t));
  {
    Requests requests(group.process);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == group.rank) continue;
      requests.receive(bytes_of(*row(peer)), bytes, group.world(peer), group.tag(Kind::Header),
                       peer);
      requests.send(bytes_of(*row(group.rank)), bytes, group.world(peer), group.tag(Kind::Header),
                    peer);
    }
    wait_for_peers(group, call, requests);
  }
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (row(from)[to] != row(to)[ranks + from]) refuse(group, call, headers);
}

void all_to_all(Group& group, const Call& call, std::span<const Header> headers) {
  compare_sizes(group, call, headers);
  Requests requests(group.process);
  for (int peer = 0; peer < group.size(); ++peer) {
    const Block to = part_of(group, call, peer);
    const Block from =
        block_of(call.receive_split_sizes.part(call.received, group.size(), peer), call.dtype);
    if (peer == group.rank) {
      copy_own(call.out + from.begin, call.in + to.begin, to.bytes);
      continue;
    }
    requests.receive(call.out + from.begin, from.bytes, group.world(peer), group.tag(Kind::Data),
                     peer);
    requests.send(call.in + to.begin, to.bytes, group.world(peer), group.tag(Kind::Data), peer);
  }
  wait_for_data(group, call, requests);
}

}  // namespace

void run_collective(Group& group, const Call& call) {
  group.process.listen();
  const std::vector<Header> headers = meet(group, call);
  if (call.moves == Moves::Nothing) {
    if (call.operation == Operation::AllToAll) compare_sizes(group, call, headers);
    return;
  }
  const Block own =
      call.operation == Operation::Barrier ? Block() : part_of(group, call, group.rank);
  switch (call.operation) {
    case Operation::AllReduce:
      reduce_shares(group, call, call.out + own.begin, split_shares(group, call));
      return spread_parts(group, call);
    case Operation::ReduceScatter:
      return reduce_shares(group, call, call.out, split_shares(group, call));
    case Operation::AllGather:
      copy_own(call.out + own.begin, call.in, own.bytes);
      return spread_parts(group, call);
    case Operation::AllToAll:
      return all_to_all(group, call, headers);
    case Operation::Broadcast:
      return broadcast(group, call);
    case Operation::Scatter:
      return scatter(group, call);
    case Operation::Gather:
      return gather(group, call);
    case Operation::Reduce:
      return reduce_shares(group, call, call.out, root_shares(group, call));
    case Operation::Barrier:
      return;
    case Operation::Send:
    case Operation::Receive:
      break;
  }
  SXT_FAIL(Internal, to_string(call), " is no collective");
}

}  // namespace sextant::mpi

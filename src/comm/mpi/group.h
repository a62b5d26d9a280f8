#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/mpi/process.h"
#include "comm/mpi/requests.h"

namespace sextant::mpi {

// Kinds of messages inside a group, told apart by their tags.
enum class Kind : uint8_t { Header, Data, SendHeader, ReceiveHeader, Message };
inline constexpr int kKinds = 8;

// The ranks that call together. Groups are tags of MPI_COMM_WORLD, so making one needs no call of
// MPI's that could wait forever.
struct Group {
  Process& process;
  std::string name;
  std::vector<int> world_ranks;
  int rank = 0;    // this one's
  int number = 0;  // no two groups of a rank have the same

  int size() const { return static_cast<int>(world_ranks.size()); }
  int world(int peer) const { return world_ranks[static_cast<size_t>(peer)]; }
  int tag(Kind kind) const { return number * kKinds + static_cast<int>(kind); }
};

// What a rank tells its peers of a call before data moves.
struct Header {
  int64_t sequence = 0;
  uint64_t key = 0;  // equal for calls that fit together
  char text[240] = {};
};
Header header_of(const Call& call);

// Fails the process and throws Error(Peer) with the place of the call in front.
[[noreturn]] void fail(const Group& group, const Call& call, const std::string& text);
// The same for requests that are late: lists their ranks, and what those say they are at.
// `what`: "did not come to".
[[noreturn]] void fail_late(const Group& group, const Call& call, const Requests& requests,
                            const char* what);

// Runs a collective to its end: headers first, then data. One at a time in a process.
void run_collective(Group& group, const Call& call);

}  // namespace sextant::mpi

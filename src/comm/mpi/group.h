#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/mpi/process.h"
#include "comm/mpi/requests.h"

namespace sextant::mpi {

// Kinds of MPI messages inside a group, distinguished by tag.
enum class Kind : uint8_t { Header, Data, SendHeader, ReceiveHeader, Message };
inline constexpr int kKinds = 8;

// The ranks of a process group. Groups are tag ranges of MPI_COMM_WORLD, so creating one makes no
// MPI call that could block forever.
struct Group {
  Process& process;
  std::string name;
  std::vector<int> world_ranks;
  int rank = 0;    // this process's
  int number = 0;  // unique among the groups of a rank

  int size() const { return static_cast<int>(world_ranks.size()); }
  int world(int peer) const { return world_ranks[static_cast<size_t>(peer)]; }
  int tag(Kind kind) const { return number * kKinds + static_cast<int>(kind); }
};

// Describes a call to the peers before data moves.
struct Header {
  int64_t sequence = 0;
  uint64_t key = 0;  // equal for matching calls
  char text[240] = {};
};
Header header_of(const Call& call);

// Fails the process and throws Error(Peer) with the group and number of the call in front.
[[noreturn]] void fail(const Group& group, const Call& call, const std::string& text);
// The same for requests that timed out: lists their ranks and the status of each.
// `what`: "did not call".
[[noreturn]] void fail_late(const Group& group, const Call& call, const Requests& requests,
                            const char* what);

// Runs a collective to completion: headers first, then data. One at a time in a process.
void run_collective(Group& group, const Call& call);

}  // namespace sextant::mpi

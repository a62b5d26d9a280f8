#include "comm/mpi/group.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/timeout_report.h"
#include "fault/deadline.h"

namespace sextant::mpi {
namespace {

// Timeouts in seconds to query one rank, and all of them; a rank that waits answers at once.
struct QueryTimeouts {
  double one, all;
};
constexpr QueryTimeouts kTimeouts = {0.3, 1},
                        kShortTimeouts = {0.1, 0.4};  // after SIGTERM one second is left

}  // namespace

Header header_of(const Call& call) {
  const std::string text = to_string(call);
  Header header;
  header.sequence = call.sequence;
  header.key = agreement_key(call);
  std::memcpy(header.text, text.data(), std::min(text.size(), sizeof header.text - 1));
  return header;
}

void fail_late(const Group& group, const Call& call, const Requests& requests, const char* what) {
  Process& process = group.process;
  const std::vector<int> late = requests.late();
  std::vector<int> in_world;
  in_world.reserve(late.size());
  for (const int rank : late) in_world.push_back(group.world(rank));
  const bool named = in_world != late || group.rank != process.rank();
  const bool ends = EndWatch::has_come();
  const QueryTimeouts timeouts = ends ? kShortTimeouts : kTimeouts;
  const Deadline all(process.clock(), timeouts.all);
  const auto ask = [&](int rank) -> std::optional<RankStatus> {
    if (all.is_over()) return {};
    return process.ask(rank, Deadline(process.clock(), std::min(timeouts.one, all.left())));
  };
  const std::string when =
      ends ? " before mpirun ended the ranks" : concat(" within ", process.timeout_s(), " s");
  fail(group, call,
       concat("rank ", list_ranks(late, [&](int rank) { return group.world(rank); }), ' ', what,
              ' ', to_string(call), when,
              describe_statuses(process.ledger(), in_world, process.size(), named, ask)));
}

void fail(const Group& group, const Call& call, const std::string& text) {
  const std::string all = concat(place_of(group.name, call), ": ", text);
  group.process.fail(all);
  throw Error(Fault::Peer, all);
}

}  // namespace sextant::mpi

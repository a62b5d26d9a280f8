// What is said about ranks that others wait for in vain.
#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

bool ThreadCommunicator::has_finished(int peer) {
  return world_.rank(world_rank(peer)).finished.load();
}

void ThreadCommunicator::report_missing(const Call& call, const std::vector<int>& missing) {
  if (missing.empty()) return;  // they came at the last moment
  std::vector<int> finished;
  for (const int rank : missing)
    if (has_finished(rank)) finished.push_back(rank);
  const auto list = [&](const std::vector<int>& ranks) {
    return "rank " + list_ranks(ranks, [&](int rank) { return world_rank(rank); });
  };
  std::string text = concat("group ", name(), is_message(call.operation) ? ", message " : ", call ",
                            call.sequence, ": ");
  if (finished.empty())
    text += concat(list(missing), " did not come to ", to_string(call), " within ",
                   world_.deadline_s(), " s");
  else
    text += concat(list(finished), finished.size() == 1 ? " has" : " have",
                   " finished and will not come to ", to_string(call));
  text += concat("; rank ", rank(), " waits");
  for (const int rank : missing) {
    const std::vector<Event> last = world_.rank(world_rank(rank)).ledger.recorder.last(1);
    text += concat("; rank ", rank,
                   " last: ", last.empty() ? "nothing" : to_string(last[0], world_.clock().now()));
  }
  world_.abort(own_world_rank(), text);
}

}  // namespace sextant::threads

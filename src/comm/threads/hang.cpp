// Error report for ranks that did not make a call before its deadline.
#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"
#include "comm/timeout_report.h"

namespace sextant::threads {

bool ThreadCommunicator::has_finished(int peer) {
  return world_.rank(world_rank(peer)).finished.load();
}

void ThreadCommunicator::report_missing(const Call& call, const std::vector<int>& missing) {
  if (missing.empty()) return;  // they arrived in the meantime
  std::vector<int> finished;
  for (const int rank : missing)
    if (has_finished(rank)) finished.push_back(rank);
  const auto list = [&](const std::vector<int>& ranks) {
    return "rank " + list_ranks(ranks, [&](int rank) { return world_rank(rank); });
  };
  std::string text = concat(place_of(name(), call), ": ");
  if (finished.empty())
    text += concat(list(missing), " did not call ", to_string(call), " within ", world_.timeout_s(),
                   " s");
  else
    text += concat(list(finished), finished.size() == 1 ? " has" : " have",
                   " finished and will not call ", to_string(call));
  std::vector<int> in_world;
  for (const int rank : missing) in_world.push_back(world_rank(rank));
  text += describe_statuses(state().ledger, in_world, world_.size(),
                            in_world != missing || own_world_rank() != rank(),
                            [&](int rank) { return status_of(world_.rank(rank).ledger); });
  world_.abort(own_world_rank(), text);
}

}  // namespace sextant::threads

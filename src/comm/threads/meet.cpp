// How a rank may leave a meeting without anybody touching its memory afterwards: whoever wants to
// work shows Working first and looks then whether the world is over; whoever leaves has seen that
// it is over, shows Away and looks then who is Working. All of it is sequentially consistent, so
// either the first sees that it is over, or the second sees that somebody works, and waits.
#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

bool ThreadCommunicator::has_arrived(int peer, const Call& call, When when) {
  for (const When lane : {when, when == When::Now ? When::Later : When::Now}) {
    Cell& cell = group_.cell(peer, lane);
    if (Cell::sequence_of(cell.state.load()) != call.sequence) continue;
    meeting(when).cells[static_cast<size_t>(peer)] = &cell;
    return true;
  }
  return false;
}

bool ThreadCommunicator::is_over(std::optional<Deadline>& deadline) {
  if (!deadline) deadline.emplace(world_.clock(), world_.deadline_s());
  return world_.is_aborted() || deadline->is_over();
}

void ThreadCommunicator::wait_for_arrivals(const Call& call, When when, Patience patience) {
  int arrived = 0;
  const auto ready = [&] {
    while (arrived < size() && has_arrived(arrived, call, when)) ++arrived;
    return arrived == size();
  };
  if (ready()) {  // the last one, perhaps: others may sleep
    group_.bell.ring();
    return;
  }
  std::optional<Deadline> deadline;
  const auto stop = [&] {
    if (is_over(deadline)) return true;
    // In this order: a rank that has finished shows no more calls.
    for (int peer = arrived; peer < size(); ++peer)
      if (has_finished(peer) && !has_arrived(peer, call, when)) return true;
    return false;
  };
  while (!wait_until(group_.bell, patience, ready, stop)) {
    if (!world_.is_aborted()) report_missing(call, missing(call, when));
    if (world_.is_aborted()) leave(call, when);
  }
}

void ThreadCommunicator::wait_until_done(const Call& call, When when, Patience patience) {
  int done = 0;
  const auto ready = [&] {
    for (; done < size(); ++done) {
      const uint64_t state = meeting(when).cells[static_cast<size_t>(done)]->state.load();
      // One that has gone on is done too; one that left early is not.
      if (state == 0) return false;
      if (Cell::sequence_of(state) == call.sequence && Cell::phase_of(state) != Phase::Done)
        return false;
    }
    return true;
  };
  if (ready()) {
    group_.bell.ring();
    return;
  }
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.bell, patience, ready, stop)) leave(call, when);
}

void ThreadCommunicator::leave(const Call& call, When when) {
  group_.cell(rank(), when).state.store(0);
  const uint64_t working = Cell::pack(call.sequence, Phase::Working);
  for (int peer = 0; peer < size(); ++peer)
    for (const When lane : {When::Now, When::Later})
      while (group_.cell(peer, lane).state.load() == working) give_way();
  world_.throw_aborted(own_world_rank());
}

void ThreadCommunicator::meet(const Call& call, When when, Patience patience) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  Cell& own = group_.cell(rank(), when);
  own.call = call;
  own.state.store(Cell::pack(call.sequence, Phase::Arrived));
  wait_for_arrivals(call, when, patience);
  own.state.store(Cell::pack(call.sequence, Phase::Working));
  if (world_.is_aborted()) leave(call, when);
  // Calls and cuts lie in the memory of the others too, so a complaint is written before all go.
  std::string complaint;
  if (agree(meeting(when)))
    do_part(meeting(when));
  else
    complaint = describe_mismatch(name(), call.sequence, calls_of(meeting(when)));
  own.state.store(Cell::pack(call.sequence, Phase::Done));
  wait_until_done(call, when, patience);
  if (!complaint.empty()) throw Error(Fault::Peer, complaint);
}

}  // namespace sextant::threads

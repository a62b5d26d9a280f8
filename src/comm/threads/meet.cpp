// How a rank may leave a meeting without anybody touching its memory afterwards: whoever wants to
// work shows Working first and looks then whether the world is over; whoever leaves has seen that
// it is over, shows Away and looks then who is Working. All of it is sequentially consistent, so
// either the first sees that it is over, or the second sees that somebody works, and waits.
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

// Most likely in the seat that this rank has.
bool ThreadCommunicator::has_arrived(int peer, const Call& call, int seat) {
  for (int other = 0; other < kSeats; ++other) {
    Cell& cell = group_.cell(peer, seat ^ other);
    if (Cell::sequence_of(cell.state.load()) != call.sequence) continue;
    meeting(seat).cells[static_cast<size_t>(peer)] = &cell;
    return true;
  }
  return false;
}

bool ThreadCommunicator::is_over(std::optional<Deadline>& deadline) {
  if (!deadline) deadline.emplace(world_.clock(), world_.deadline_s());
  return world_.is_aborted() || deadline->is_over();
}

void ThreadCommunicator::wait_for_arrivals(const Call& call, int seat, Patience patience) {
  int arrived = 0;
  const auto ready = [&] {
    while (arrived < size() && has_arrived(arrived, call, seat)) ++arrived;
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
      if (has_finished(peer) && !has_arrived(peer, call, seat)) return true;
    return false;
  };
  while (!wait_until(group_.bell, patience, ready, stop)) {
    if (!world_.is_aborted()) report_missing(call, missing(call, seat));
    if (world_.is_aborted()) leave(call.sequence, seat);
  }
}

void ThreadCommunicator::wait_until_done(int64_t sequence, int seat, Patience patience) {
  int done = 0;
  const auto ready = [&] {
    for (; done < size(); ++done) {
      const uint64_t state = meeting(seat).cells[static_cast<size_t>(done)]->state.load();
      // One that has gone on is done too; one that left early is not.
      if (state == 0) return false;
      if (Cell::sequence_of(state) == sequence && Cell::phase_of(state) != Phase::Done)
        return false;
    }
    return true;
  };
  if (ready()) {
    group_.bell.ring();
    return;
  }
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.bell, patience, ready, stop)) leave(sequence, seat);
}

void ThreadCommunicator::leave(int64_t sequence, int seat) {
  group_.cell(rank(), seat).state.store(0);
  const uint64_t working = Cell::pack(sequence, Phase::Working);
  for (int peer = 0; peer < size(); ++peer)
    for (int other = 0; other < kSeats; ++other)
      while (group_.cell(peer, other).state.load() == working) give_way();
  world_.throw_aborted(own_world_rank());
}

void ThreadCommunicator::meet(const Call& call, When when, Patience patience) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  const auto lane = static_cast<int>(when);
  int& turn = turns_[static_cast<size_t>(lane)];
  turn = (turn + 1) % kTurns;
  const int seat = lane * kTurns + turn;
  int64_t& left = left_[static_cast<size_t>(seat)];
  if (left != 0) wait_until_done(std::exchange(left, 0), seat, patience);
  Cell& own = group_.cell(rank(), seat);
  own.call = call;
  // A thread with a core of its own sees at once that all are done, so copies would cost more.
  const bool small = world_.patience() == Patience::Yield && is_small(call, size());
  if (small) show_input(own, size(), rank());
  own.state.store(Cell::pack(call.sequence, Phase::Arrived));
  wait_for_arrivals(call, seat, patience);
  own.state.store(Cell::pack(call.sequence, Phase::Working));
  if (world_.is_aborted()) leave(call.sequence, seat);
  // Calls and cuts lie in the memory of the others too, so a complaint is written before all go.
  std::string complaint;
  if (!agree(meeting(seat)))
    complaint = describe_mismatch(name(), call.sequence, calls_of(meeting(seat)));
  else if (small)
    do_small(meeting(seat));
  else
    do_part(meeting(seat));
  own.state.store(Cell::pack(call.sequence, Phase::Done));
  if (small)
    left = call.sequence;
  else
    wait_until_done(call.sequence, seat, patience);
  if (!complaint.empty()) throw Error(Fault::Peer, complaint);
}

}  // namespace sextant::threads

// When a slot may be used again: when nobody will look at the call in it any more.
//
// In most calls each rank waits for all others, looks at their slots, and then shows by
// CallSlots::seen that it is through. A rank that has taken part knows in which lane the others
// did, so it waits until `seen` of all of them has come as far as the call in the slot.
//
// A small broadcast is one-way: its root shows the vector and goes on. Whoever has read it says so
// in Group::read of the root's slot. That slot is free when all have; and so are the slots of that
// call of all other ranks, since whoever has not read yet may still want to tell what they called.
// A root is thus at most kSlots calls ahead of the slowest reader. A root compares its call with
// that of rank 0 and says so likewise, unless it is that.
//
// That nobody is past a call that another one complains about follows from both: it has neither
// moved `seen` to that call nor read a broadcast of that number.
//
// A line that another core has read leaves the one that wrote it, on some processors: to read it
// again is to wait for it. So a rank never looks at what it shows: see Shown.
#include "base/error.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

// Of the call that this rank shows in a slot.
bool ThreadCommunicator::is_over_for(int peer, int64_t sequence, int lane) {
  const Shown& call = shown(sequence, lane);
  if (call.root == kNoRoot) {
    const int there = call.lanes[static_cast<size_t>(peer)];
    int64_t& seen = seen_[static_cast<size_t>(lane)][static_cast<size_t>(there * size() + peer)];
    if (seen < sequence)
      seen = group_.call_slots_of(peer, there).seen.load(std::memory_order_acquire);
    return seen >= sequence;
  }
  if (peer == 0 && call.root == 0) return true;  // rank 0 as the root looks at nobody
  const int there = call.lanes[static_cast<size_t>(call.root)];
  return group_.read(call.root, there, sequence, peer).load(std::memory_order_acquire) >= sequence;
}

bool ThreadCommunicator::is_over_for_all(int64_t sequence, int lane) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && !is_over_for(peer, sequence, lane)) return false;
  return true;
}

// The slot for this call. Of those behind it too, some at a time: what the others write to tell
// lies together, so fetching it costs as much for one as for several.
bool ThreadCommunicator::is_free_now(int64_t sequence, int lane) {
  for (int next = 0; next < kSlots / 2; ++next) {
    Shown& call = shown(sequence + next, lane);
    if (!call.over && !is_over_for_all(call.sequence, lane)) break;
    call.over = true;
  }
  return shown(sequence, lane).over;
}

void ThreadCommunicator::claim_slot(int64_t sequence, int lane, Patience patience) {
  if (is_free(sequence, lane)) return;
  const Shown& own = shown(sequence, lane);
  Call call = own.identity == kLarge ? own_slots(lane).call : call_of(own.identity);
  call.sequence = own.sequence;
  wait(
      call, lane, patience, [&] { return is_free(sequence, lane); },
      [&](int peer) { return peer != rank() && !is_over_for(peer, call.sequence, lane); });
}

void ThreadCommunicator::await_readers() {
  if (world_.is_aborted()) return;
  try {
    for (int lane = 0; lane < kLanes; ++lane)
      for (int slot = 0; slot < kSlots; ++slot)
        if (shown(slot, lane).root == rank()) claim_slot(slot, lane, world_.patience());
  } catch (const Error&) {
    if (!state().echoed.load()) throw;  // what another rank failed with is that one's to throw
  }
}

bool ThreadCommunicator::is_over(std::optional<Deadline>& deadline) {
  if (!deadline) deadline.emplace(world_.clock(), world_.deadline_s());
  return world_.is_aborted() || deadline->is_over();
}

template <class Ready, class IsMissing>
void ThreadCommunicator::wait(const Call& call, int lane, Patience patience, Ready&& ready,
                              IsMissing&& is_missing) {
  if (lane == static_cast<int>(When::Now)) start_watch();
  std::optional<Deadline> deadline;
  const auto stop = [&] {
    if (is_over(deadline)) return true;
    // In this order: a rank that has finished shows no more calls.
    for (int peer = 0; peer < size(); ++peer)
      if (has_finished(peer) && is_missing(peer)) return true;
    return false;
  };
  while (!wait_until(group_.bell, patience, ready, stop)) {
    std::vector<int> missing;
    for (int peer = 0; peer < size(); ++peer)
      if (is_missing(peer)) missing.push_back(peer);
    if (!world_.is_aborted()) report_missing(call, missing);
    if (world_.is_aborted()) leave(call.sequence);
  }
}

namespace {

// Ranks that have cores of their own and make the same call are this far apart. A pause between
// looks would take longer than the news.
template <class Ready>
bool is_ready_soon(Patience patience, Ready&& ready) {
  constexpr int kLooks = 128;
  for (int look = 0; look < (patience == Patience::Spin ? kLooks : 1); ++look)
    if (ready()) return true;
  return false;
}

}  // namespace

void ThreadCommunicator::wait_for_arrivals(const Call& call, int lane, Patience patience) {
  int arrived = 0;
  const auto ready = [&] {
    while (arrived < size() && (arrived == rank() || has_arrived(arrived, call.sequence, lane)))
      ++arrived;
    return arrived == size();
  };
  if (!is_ready_soon(patience, ready))
    wait(call, lane, patience, ready,
         [&](int peer) { return !has_arrived(peer, call.sequence, lane); });
  group_.bell.ring();  // others may sleep
}

void ThreadCommunicator::wait_for_arrival(const Call& call, int lane, int source,
                                          Patience patience) {
  const auto ready = [&] { return has_arrived(source, call.sequence, lane); };
  if (!is_ready_soon(patience, ready))
    wait(call, lane, patience, ready, [&](int peer) { return peer == source && !ready(); });
}

}  // namespace sextant::threads

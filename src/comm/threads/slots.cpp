// A slot can be reused when no rank will read the call in it any more.
//
// In most collectives each rank waits for all others, reads their slots, and then stores the
// sequence number in CallSlots::seen. A rank knows in which lane each other rank posted the call,
// so it waits until `seen` of all of them has reached the call in the slot.
//
// A small broadcast is one-way: the root posts the vector and returns. Each reader then stores the
// sequence number in Group::read for the root's slot. When all have, the slots of that call are
// free on all ranks: until then a reader may need them to report a mismatch. The root is thus at
// most kSlots calls ahead of the slowest reader. A root other than rank 0 compares its call with
// rank 0's and stores the number in the same way.
//
// It follows that no rank can be past a call in which another rank finds a mismatch: that one has
// neither moved `seen` to the call nor marked the broadcast as read.
//
// On some processors a cache line that another core has read must be fetched again by its writer.
// So a rank does not read its own slots: it keeps the values in Posted.
#include "base/error.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

// Whether `peer` is done with the call that this rank has posted.
bool ThreadCommunicator::is_over_for(int peer, int64_t sequence, int lane) {
  const Posted& call = posted(sequence, lane);
  if (call.root == kNoRoot) {
    const int there = call.lanes[static_cast<size_t>(peer)];
    int64_t& seen = seen_[static_cast<size_t>(lane)][static_cast<size_t>(there * size() + peer)];
    if (seen < sequence)
      seen = group_.call_slots_of(peer, there).seen.load(std::memory_order_acquire);
    return seen >= sequence;
  }
  if (peer == 0 && call.root == 0) return true;  // rank 0 as the root reads no slot
  const int there = call.lanes[static_cast<size_t>(call.root)];
  return group_.read(call.root, there, sequence, peer).load(std::memory_order_acquire) >= sequence;
}

bool ThreadCommunicator::is_over_for_all(int64_t sequence, int lane) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && !is_over_for(peer, sequence, lane)) return false;
  return true;
}

// Checks the slot for this call and some after it: the entries that the other ranks write are
// adjacent in memory, so several cost one cache miss.
bool ThreadCommunicator::is_free_now(int64_t sequence, int lane) {
  for (int next = 0; next < kSlots / 2; ++next) {
    Posted& call = posted(sequence + next, lane);
    if (!call.over && !is_over_for_all(call.sequence, lane)) break;
    call.over = true;
  }
  return posted(sequence, lane).over;
}

void ThreadCommunicator::claim_slot(int64_t sequence, int lane, WaitPolicy wait_policy) {
  if (is_free(sequence, lane)) return;
  const Posted& own = posted(sequence, lane);
  Call call = own.identity == kLarge ? own_slots(lane).call : call_of(own.identity);
  call.sequence = own.sequence;
  wait(
      call, lane, wait_policy, [&] { return is_free(sequence, lane); },
      [&](int peer) { return peer != rank() && !is_over_for(peer, call.sequence, lane); });
}

void ThreadCommunicator::await_readers() {
  if (world_.is_aborted()) return;
  try {
    for (int lane = 0; lane < kLanes; ++lane)
      for (int slot = 0; slot < kSlots; ++slot)
        if (posted(slot, lane).root == rank()) claim_slot(slot, lane, world_.wait_policy());
  } catch (const Error&) {
    if (!state().echoed.load()) throw;  // an error caused by another rank is thrown there
  }
}

bool ThreadCommunicator::is_over(std::optional<Deadline>& deadline) {
  if (!deadline) deadline.emplace(world_.clock(), world_.timeout_s());
  return world_.is_aborted() || deadline->is_over();
}

template <class Ready, class IsMissing>
void ThreadCommunicator::wait(const Call& call, int lane, WaitPolicy wait_policy, Ready&& ready,
                              IsMissing&& is_missing) {
  if (lane == static_cast<int>(When::Now)) start_watch();
  std::optional<Deadline> deadline;
  const auto stop = [&] {
    if (is_over(deadline)) return true;
    // In this order: a rank that has finished posts no more calls.
    for (int peer = 0; peer < size(); ++peer)
      if (has_finished(peer) && is_missing(peer)) return true;
    return false;
  };
  while (!wait_until(group_.event_count, wait_policy, ready, stop)) {
    std::vector<int> missing;
    for (int peer = 0; peer < size(); ++peer)
      if (is_missing(peer)) missing.push_back(peer);
    if (!world_.is_aborted()) report_missing(call, missing);
    if (world_.is_aborted()) leave(call.sequence);
  }
}

namespace {

// Spins for as long as ranks with their own cores are usually apart, without pause instructions,
// which would take longer than the cache line.
template <class Ready>
bool is_ready_soon(WaitPolicy wait_policy, Ready&& ready) {
  constexpr int kLooks = 128;
  for (int look = 0; look < (wait_policy == WaitPolicy::Spin ? kLooks : 1); ++look)
    if (ready()) return true;
  return false;
}

}  // namespace

void ThreadCommunicator::wait_for_arrivals(const Call& call, int lane, WaitPolicy wait_policy) {
  int arrived = 0;
  const auto ready = [&] {
    while (arrived < size() && (arrived == rank() || has_arrived(arrived, call.sequence, lane)))
      ++arrived;
    return arrived == size();
  };
  if (!is_ready_soon(wait_policy, ready))
    wait(call, lane, wait_policy, ready,
         [&](int peer) { return !has_arrived(peer, call.sequence, lane); });
  group_.event_count.notify();  // other ranks may sleep
}

void ThreadCommunicator::wait_for_arrival(const Call& call, int lane, int source,
                                          WaitPolicy wait_policy) {
  const auto ready = [&] { return has_arrived(source, call.sequence, lane); };
  if (!is_ready_soon(wait_policy, ready))
    wait(call, lane, wait_policy, ready, [&](int peer) { return peer == source && !ready(); });
}

}  // namespace sextant::threads

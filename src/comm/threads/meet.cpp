// How a rank may leave a meeting without anybody touching its memory afterwards: whoever wants to
// work shows that it does first and looks then whether the world is over; whoever leaves has seen
// that it is over, and looks then who works. All of it is sequentially consistent, so either the
// first sees that it is over, or the second sees that somebody works, and waits.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/fold.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {
namespace {

constexpr int64_t kExpected = 256;  // bytes of an input that are asked for ahead

}  // namespace

void ThreadCommunicator::show(const Call& call, int lane) {
  CallSlots& call_slots_of = own_slots(lane);
  Slot& own = call_slots_of.slot(call.sequence);
  Shown& memory = shown(call.sequence, lane);
  memory.sequence = call.sequence;
  memory.root = kNoRoot;
  memory.over = false;
  memory.lanes[static_cast<size_t>(rank())] = static_cast<uint8_t>(lane);
  memory.identity = kLarge;
  const int64_t small = world_.patience() == Patience::Spin ? kSmallSpinning : kSmall;
  memory.bytes = shown_bytes(call, size());
  if (memory.bytes <= small) {
    memory.identity = identity_of(call);
    show_input(own.input(memory.bytes), call, size(), rank());
    if (call.operation == Operation::Broadcast) memory.root = call.root;
  } else {
    call_slots_of.call = call;
    call_slots_of.core.store(current_core(), std::memory_order_relaxed);
    own.taken.store(0, std::memory_order_relaxed);
    own.done.store(0, std::memory_order_relaxed);
  }
  own.identity.store(memory.identity, std::memory_order_relaxed);
  own.sequence.store(call.sequence, std::memory_order_release);
}

// One function of each: what is called and returns takes longer than what it does, and what it puts
// on the stack waits in line behind the slot, for as long as its memory takes to come.
[[gnu::flatten]] bool ThreadCommunicator::announce(const Call& call) {
  constexpr auto lane = static_cast<int>(When::Now);
  if (is_message(call.operation) || world_.is_aborted()) return false;
  if (!is_free(call.sequence, lane)) return false;
  show(call, lane);
  announced_ = call.sequence;
  return shows_small(call.sequence, lane);
}

[[gnu::flatten]] void ThreadCommunicator::execute(const Call& call) {
  if (is_message(call.operation)) return exchange(call);
  meet(call, When::Now, world_.patience());
}

void ThreadCommunicator::meet(const Call& call, When when, Patience patience) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  const auto lane = static_cast<int>(when);
  if (when == When::Later || announced_ != call.sequence) {
    claim_slot(call.sequence, lane, patience);
    show(call, lane);
  }
  if (shows_small(call.sequence, lane))
    meet_small(call, lane, patience);
  else
    meet_large(call, lane, patience);
}

// Every rank that was seen to arrive shows this.
bool ThreadCommunicator::is_alike(int64_t sequence, int lane, uint64_t identity) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() &&
        slots_of(peer, sequence, lane).slot(sequence).identity.load(std::memory_order_relaxed) !=
            identity)
      return false;
  return true;
}

void ThreadCommunicator::meet_small(const Call& call, int lane, Patience patience) {
  CallSlots& call_slots_of = own_slots(lane);
  const Shown& own = shown(call.sequence, lane);
  if (call.operation == Operation::Broadcast) {
    broadcast_small(call, lane, patience);
  } else {
    wait_for_arrivals(call, lane, patience);
    if (!is_alike(call.sequence, lane, own.identity)) complain(call, lane, patience);
    std::vector<const std::byte*>& inputs = meetings_[static_cast<size_t>(lane)].inputs;
    for (int peer = 0; peer < size(); ++peer)
      inputs[static_cast<size_t>(peer)] =
          peer == rank() ? call.in
                         : slots_of(peer, call.sequence, lane).slot(call.sequence).input(own.bytes);
    do_small(call, inputs, rank());
  }
  call_slots_of.seen.store(call.sequence, std::memory_order_release);
  if (shown(call.sequence + 1, lane).over) {  // the next call is most likely as large
    Slot& next = call_slots_of.slot(call.sequence + 1);
    const std::byte* input = next.input(own.bytes);
    expect_to_write(&next);
    for (int64_t at = 0; at < std::min(own.bytes, kExpected); at += 64) expect_to_write(input + at);
  }
}

// Each compares its call with the root's, and a root with that of rank 0: whoever calls something
// else is then noticed by somebody, and no root waits for all. Rank 0 as the root waits for nobody.
void ThreadCommunicator::broadcast_small(const Call& call, int lane, Patience patience) {
  const bool is_root = rank() == call.root;
  Shown& own = shown(call.sequence, lane);
  if (is_root || rank() == 0) group_.bell.ring();
  const int source = is_root ? 0 : call.root;
  if (source != rank()) {
    wait_for_arrival(call, lane, source, patience);
    Slot& from = slots_of(source, call.sequence, lane).slot(call.sequence);
    if (from.identity.load(std::memory_order_relaxed) != own.identity)
      complain(call, lane, patience);
    if (!is_root) copy_into(call.out, from.input(own.bytes), call.count * size_of(call.dtype));
  }
  if (is_root && rank() == 0) return;  // it was not compared with anything
  const int there = own.lanes[static_cast<size_t>(call.root)];
  group_.read(call.root, there, call.sequence, rank())
      .store(call.sequence, std::memory_order_release);
  if (!is_root) group_.bell.ring();  // the root may sleep until its slot is free
}

void ThreadCommunicator::meet_large(const Call& call, int lane, Patience patience) {
  wait_for_arrivals(call, lane, patience);
  if (!is_alike(call.sequence, lane, kLarge)) complain(call, lane, patience);
  own_slots(lane).working.store(call.sequence);
  if (world_.is_aborted()) leave(call.sequence);
  if (world_.patience() == Patience::Yield && size() <= 64)  // alike on all ranks
    work_for_each_other(call, lane, patience);
  else
    work_alone(call, lane, patience);
}

Meeting& ThreadCommunicator::meeting_of(const Call& call, int lane) {
  Meeting& meeting = meetings_[static_cast<size_t>(lane)];
  for (int peer = 0; peer < size(); ++peer)
    meeting.calls[static_cast<size_t>(peer)] = &slots_of(peer, call.sequence, lane).call;
  return meeting;
}

void ThreadCommunicator::work_alone(const Call& call, int lane, Patience patience) {
  CallSlots& call_slots_of = own_slots(lane);
  Meeting& meeting = meeting_of(call, lane);
  if (!agree(meeting)) complain(call, lane, patience);
  meeting.rank = rank();
  do_part(meeting);
  call_slots_of.working.store(0);
  call_slots_of.seen.store(call.sequence);
  wait_until_done(call.sequence, lane, patience);
}

// Where ranks share a core, the one that runs does its own piece and then those of the ranks that
// wait for that core. They find them done: a rank needs its core once in a call, not twice, and the
// pieces stay where their memory is cached. Whoever has taken a piece may read the calls of the
// others until it is done, as none of them goes before all pieces are.
void ThreadCommunicator::work_for_each_other(const Call& call, int lane, Patience patience) {
  CallSlots& call_slots_of = own_slots(lane);
  Slot& pieces = slots_of(0, call.sequence, lane).slot(call.sequence);
  const auto take = [&](int piece) {
    const uint64_t bit = uint64_t{1} << piece;
    return (pieces.taken.load() & bit) == 0 && (pieces.taken.fetch_or(bit) & bit) == 0;
  };
  const auto work = [&](int piece) {
    Meeting& meeting = meeting_of(call, lane);
    // What one rank has found to agree needs no second look: only own pieces may be refused.
    if (piece == rank() && !agree(meeting)) complain(call, lane, patience);
    meeting.rank = piece;
    do_part(meeting);
    if (pieces.done.fetch_add(1) + 1 == size()) group_.bell.ring();
  };
  if (take(rank())) {
    work(rank());
    const int core = current_core();
    for (int peer = 0; peer < size(); ++peer)
      if (core >= 0 && slots_of(peer, call.sequence, lane).core.load() == core && take(peer))
        work(peer);
  }
  call_slots_of.working.store(0);
  const auto ready = [&] { return pieces.done.load() == size(); };
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.bell, patience, ready, stop)) leave(call.sequence);
  call_slots_of.seen.store(call.sequence, std::memory_order_release);
}

void ThreadCommunicator::wait_until_done(int64_t sequence, int lane, Patience patience) {
  int done = 0;
  const auto ready = [&] {
    while (done < size() && (done == rank() || is_over_for(done, sequence, lane))) ++done;
    return done == size();
  };
  if (ready()) {
    group_.bell.ring();
    return;
  }
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.bell, patience, ready, stop)) leave(sequence);
}

void ThreadCommunicator::wait_for_workers(int64_t sequence) {
  for (int peer = 0; peer < size(); ++peer)
    for (int lane = 0; lane < kLanes; ++lane)
      while (peer != rank() && group_.call_slots_of(peer, lane).working.load() == sequence)
        give_way();
}

void ThreadCommunicator::leave(int64_t sequence) {
  for (int lane = 0; lane < kLanes; ++lane)
    if (own_slots(lane).working.load() == sequence) own_slots(lane).working.store(0);
  wait_for_workers(sequence);
  world_.throw_aborted(own_world_rank());
}

// Large calls and their cuts lie in the memory of the others, so it is written before those go.
void ThreadCommunicator::complain(const Call& call, int lane, Patience patience) {
  wait_for_arrivals(call, lane, patience);
  CallSlots& call_slots_of = own_slots(lane);
  call_slots_of.working.store(call.sequence);
  if (world_.is_aborted()) leave(call.sequence);
  std::vector<std::string> texts;
  bool some_went = false;
  for (int peer = 0; peer < size(); ++peer) {
    CallSlots& there = slots_of(peer, call.sequence, lane);
    const uint64_t identity = there.slot(call.sequence).identity.load(std::memory_order_relaxed);
    const Call shown = identity == kLarge ? there.call : call_of(identity);
    texts.push_back(to_string(shown));
    some_went = some_went || (identity != kLarge && shown.operation == Operation::Broadcast);
  }
  const std::string text = describe_mismatch(name(), call, texts);
  call_slots_of.working.store(0);
  call_slots_of.seen.store(call.sequence);
  group_.bell.ring();
  if (some_went) {  // they hear of it when they call again
    world_.abort(own_world_rank(), text);
    wait_for_workers(call.sequence);
  } else {
    shown(call.sequence, lane).root = kNoRoot;
    wait_until_done(call.sequence, lane, patience);
  }
  throw Error(Fault::Peer, text);
}

}  // namespace sextant::threads

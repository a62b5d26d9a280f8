// After an abort, a rank must not return from a collective while another rank uses its memory. A
// rank that is about to use the memory of others first stores `working` and then loads the abort
// flag; a rank that leaves has seen the abort flag and then loads `working` of all others. This is
// sequentially consistent: either the first sees the abort, or the second sees `working` and waits.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/reduce.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {
namespace {

constexpr int64_t kExpected = 256;  // bytes of the next input that are prefetched

}  // namespace

void ThreadCommunicator::post_call(const Call& call, int lane) {
  CallSlots& slots = own_slots(lane);
  Slot& own = slots.slot(call.sequence);
  Posted& record = posted(call.sequence, lane);
  record.sequence = call.sequence;
  record.root = kNoRoot;
  record.over = false;
  record.lanes[static_cast<size_t>(rank())] = static_cast<uint8_t>(lane);
  record.identity = kLarge;
  const int64_t small = world_.wait_policy() == WaitPolicy::Spin ? kSmallSpinning : kSmall;
  record.bytes = posted_bytes(call, size());
  if (call.stream == nullptr && call.moves == Moves::Data && record.bytes <= small) {
    record.identity = identity_of(call);
    post_input(own.input(record.bytes), call, size(), rank());
    if (call.operation == Operation::Broadcast) record.root = call.root;
  } else {
    slots.call = call;
    if (call.stream != nullptr && call.ready == nullptr) slots.call.ready = &mark_ready(call);
    slots.core.store(current_core(), std::memory_order_relaxed);
    own.taken.store(0, std::memory_order_relaxed);
    own.done.store(0, std::memory_order_relaxed);
  }
  own.identity.store(record.identity, std::memory_order_relaxed);
  own.sequence.store(call.sequence, std::memory_order_release);
}

// announce and execute are flattened: in a small collective function calls cost more than their
// bodies, and their stack writes queue up behind the store to the slot, which misses the cache.
[[gnu::flatten]] bool ThreadCommunicator::announce(const Call& call) {
  constexpr auto lane = static_cast<int>(When::Now);
  if (is_message(call.operation) || world_.is_aborted() || is_alone_on_gpu(call)) return false;
  if (!is_free(call.sequence, lane)) return false;
  post_call(call, lane);
  announced_ = call.sequence;
  return is_small(call.sequence, lane);
}

[[gnu::flatten]] void ThreadCommunicator::execute(const Call& call) {
  if (is_message(call.operation)) return exchange(call);
  if (call.stream != nullptr) return execute_on_gpu(call);
  run_collective(call, When::Now, world_.wait_policy());
}

void ThreadCommunicator::run_collective(const Call& call, When when, WaitPolicy wait_policy) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  const auto lane = static_cast<int>(when);
  if (when == When::Later || announced_ != call.sequence) {
    claim_slot(call.sequence, lane, wait_policy);
    post_call(call, lane);
  }
  if (is_small(call.sequence, lane))
    run_small(call, lane, wait_policy);
  else
    run_large(call, lane, wait_policy);
}

// Whether all other ranks, which have arrived, posted a call of this identity.
bool ThreadCommunicator::have_same_identity(int64_t sequence, int lane, uint64_t identity) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() &&
        slots_of(peer, sequence, lane).slot(sequence).identity.load(std::memory_order_relaxed) !=
            identity)
      return false;
  return true;
}

void ThreadCommunicator::run_small(const Call& call, int lane, WaitPolicy wait_policy) {
  CallSlots& slots = own_slots(lane);
  const Posted& own = posted(call.sequence, lane);
  if (call.operation == Operation::Broadcast) {
    broadcast_small(call, lane, wait_policy);
  } else {
    wait_for_arrivals(call, lane, wait_policy);
    if (!have_same_identity(call.sequence, lane, own.identity))
      throw_mismatch(call, lane, wait_policy);
    std::vector<const std::byte*>& inputs = rendezvous_[static_cast<size_t>(lane)].inputs;
    for (int peer = 0; peer < size(); ++peer)
      inputs[static_cast<size_t>(peer)] =
          peer == rank() ? call.in
                         : slots_of(peer, call.sequence, lane).slot(call.sequence).input(own.bytes);
    do_small(call, inputs, rank());
  }
  slots.seen.store(call.sequence, std::memory_order_release);
  if (posted(call.sequence + 1, lane).over) {  // the next call is likely of the same size
    Slot& next = slots.slot(call.sequence + 1);
    const std::byte* input = next.input(own.bytes);
    prefetch_for_write(&next);
    for (int64_t at = 0; at < std::min(own.bytes, kExpected); at += 64)
      prefetch_for_write(input + at);
  }
}

// Each rank compares its call with the root's, and the root with rank 0's. Any mismatch is thus
// noticed by some rank, and no root waits for all ranks. Rank 0 as the root waits for none.
void ThreadCommunicator::broadcast_small(const Call& call, int lane, WaitPolicy wait_policy) {
  const bool is_root = rank() == call.root;
  Posted& own = posted(call.sequence, lane);
  if (is_root || rank() == 0) group_.event_count.notify();
  const int source = is_root ? 0 : call.root;
  if (source != rank()) {
    wait_for_arrival(call, lane, source, wait_policy);
    Slot& from = slots_of(source, call.sequence, lane).slot(call.sequence);
    if (from.identity.load(std::memory_order_relaxed) != own.identity)
      throw_mismatch(call, lane, wait_policy);
    if (!is_root) copy_into(call.out, from.input(own.bytes), call.count * size_of(call.dtype));
  }
  if (is_root && rank() == 0) return;  // it has compared its call with none
  const int there = own.lanes[static_cast<size_t>(call.root)];
  group_.read(call.root, there, call.sequence, rank())
      .store(call.sequence, std::memory_order_release);
  if (!is_root) group_.event_count.notify();  // the root may be waiting to reuse its slot
}

void ThreadCommunicator::run_large(const Call& call, int lane, WaitPolicy wait_policy) {
  wait_for_arrivals(call, lane, wait_policy);
  if (!have_same_identity(call.sequence, lane, kLarge)) throw_mismatch(call, lane, wait_policy);
  own_slots(lane).working.store(call.sequence);
  if (world_.is_aborted()) leave(call.sequence);
  if (call.stream != nullptr) return issue_to_gpu(call, lane, wait_policy);
  if (call.moves == Moves::Nothing) return agree_only(call, lane, wait_policy);
  if (world_.wait_policy() == WaitPolicy::Yield && size() <= 64)  // the same choice on all ranks
    compute_shares_of_core(call, lane, wait_policy);
  else
    compute_own_share(call, lane, wait_policy);
}

Rendezvous& ThreadCommunicator::rendezvous_of(const Call& call, int lane) {
  Rendezvous& rendezvous = rendezvous_[static_cast<size_t>(lane)];
  for (int peer = 0; peer < size(); ++peer)
    rendezvous.calls[static_cast<size_t>(peer)] = &slots_of(peer, call.sequence, lane).call;
  return rendezvous;
}

void ThreadCommunicator::agree_only(const Call& call, int lane, WaitPolicy wait_policy) {
  CallSlots& slots = own_slots(lane);
  if (!agree(rendezvous_of(call, lane))) throw_mismatch(call, lane, wait_policy);
  slots.working.store(0);
  slots.seen.store(call.sequence);
  wait_until_done(call.sequence, lane, wait_policy);
}

void ThreadCommunicator::compute_own_share(const Call& call, int lane, WaitPolicy wait_policy) {
  CallSlots& slots = own_slots(lane);
  Rendezvous& rendezvous = rendezvous_of(call, lane);
  if (!agree(rendezvous)) throw_mismatch(call, lane, wait_policy);
  rendezvous.rank = rank();
  do_part(rendezvous);
  slots.working.store(0);
  slots.seen.store(call.sequence);
  wait_until_done(call.sequence, lane, wait_policy);
}

// For ranks that share cores: the running rank computes its own share, then the shares of the ranks
// that wait for the same core. Those ranks then need the core once per call instead of twice, and
// shares stay where their memory is cached. A rank may read the calls of the others while it
// computes a share, because no rank returns before all shares are done.
void ThreadCommunicator::compute_shares_of_core(const Call& call, int lane,
                                                WaitPolicy wait_policy) {
  CallSlots& slots = own_slots(lane);
  Slot& pieces = slots_of(0, call.sequence, lane).slot(call.sequence);
  const auto take = [&](int piece) {
    const uint64_t bit = uint64_t{1} << piece;
    return (pieces.taken.load() & bit) == 0 && (pieces.taken.fetch_or(bit) & bit) == 0;
  };
  const auto work = [&](int piece) {
    Rendezvous& rendezvous = rendezvous_of(call, lane);
    // Each rank checks agreement once, with its own share.
    if (piece == rank() && !agree(rendezvous)) throw_mismatch(call, lane, wait_policy);
    rendezvous.rank = piece;
    do_part(rendezvous);
    if (pieces.done.fetch_add(1) + 1 == size()) group_.event_count.notify();
  };
  if (take(rank())) {
    work(rank());
    const int core = current_core();
    for (int peer = 0; peer < size(); ++peer)
      if (core >= 0 && slots_of(peer, call.sequence, lane).core.load() == core && take(peer))
        work(peer);
  }
  slots.working.store(0);
  const auto ready = [&] { return pieces.done.load() == size(); };
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.event_count, wait_policy, ready, stop)) leave(call.sequence);
  slots.seen.store(call.sequence, std::memory_order_release);
}

void ThreadCommunicator::wait_until_done(int64_t sequence, int lane, WaitPolicy wait_policy) {
  int done = 0;
  const auto ready = [&] {
    while (done < size() && (done == rank() || is_over_for(done, sequence, lane))) ++done;
    return done == size();
  };
  if (ready()) {
    group_.event_count.notify();
    return;
  }
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.event_count, wait_policy, ready, stop)) leave(sequence);
}

void ThreadCommunicator::wait_for_workers(int64_t sequence) {
  for (int peer = 0; peer < size(); ++peer)
    for (int lane = 0; lane < kLanes; ++lane)
      while (peer != rank() && group_.call_slots_of(peer, lane).working.load() == sequence)
        yield_thread();
}

void ThreadCommunicator::leave(int64_t sequence) {
  for (int lane = 0; lane < kLanes; ++lane)
    if (own_slots(lane).working.load() == sequence) own_slots(lane).working.store(0);
  wait_for_workers(sequence);
  world_.throw_aborted(own_world_rank());
}

// Reads large calls and their split sizes in the memory of the other ranks, so the text is complete
// before those can return.
void ThreadCommunicator::throw_mismatch(const Call& call, int lane, WaitPolicy wait_policy) {
  wait_for_arrivals(call, lane, wait_policy);
  CallSlots& slots = own_slots(lane);
  slots.working.store(call.sequence);
  if (world_.is_aborted()) leave(call.sequence);
  std::vector<std::string> texts;
  bool some_went = false;
  for (int peer = 0; peer < size(); ++peer) {
    CallSlots& there = slots_of(peer, call.sequence, lane);
    const uint64_t identity = there.slot(call.sequence).identity.load(std::memory_order_relaxed);
    const Call posted = identity == kLarge ? there.call : call_of(identity);
    texts.push_back(to_string(posted));
    some_went = some_went || (identity != kLarge && posted.operation == Operation::Broadcast);
  }
  const std::string text = describe_mismatch(name(), call, texts);
  slots.working.store(0);
  slots.seen.store(call.sequence);
  group_.event_count.notify();
  if (some_went) {  // those ranks throw in their next call
    world_.abort(own_world_rank(), text);
    wait_for_workers(call.sequence);
  } else {
    posted(call.sequence, lane).root = kNoRoot;
    wait_until_done(call.sequence, lane, wait_policy);
  }
  throw Error(Fault::Peer, text);
}

}  // namespace sextant::threads

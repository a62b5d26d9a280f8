// Calls in the memory of a GPU that all ranks share. Every rank marks, by an event in its stream,
// the point from which its memory may be used. Once all ranks have arrived, on the host, one of
// them issues the work of all to a queue of the group, behind these events; the streams of all
// ranks then go on behind its end. The host never waits for the device, and no kernel waits for
// another: the queues do.
//
// There is no deadlock: whatever a queue waits for was issued before the wait.
#include "base/error.h"
#include "comm/gpu_work.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

const gpu::Event& ThreadCommunicator::mark_ready(const Call& call) {
  gpu::Queue& queue = call.stream->queue();
  if (!now_ready_) now_ready_ = std::make_unique<gpu::Event>(queue.index());
  now_ready_->record(queue);
  return *now_ready_;
}

void ThreadCommunicator::run_after(const Call& call, const gpu::Event& done) {
  call.stream->queue().wait_for(done);
}

// Without peers nothing has to be ordered: the work is part of the rank's own stream.
void ThreadCommunicator::work_alone(const Call& call) {
  const Call* calls[] = {&call};
  work_on_gpu(call.stream->queue(), calls);
}

void ThreadCommunicator::execute_on_gpu(const Call& call) {
  if (size() == 1) return work_alone(call);
  run_collective(call, When::Now, world_.wait_policy());
  run_after(call, *done_on_gpu_[static_cast<size_t>(When::Now)]);
}

// All ranks have arrived. The first to get here issues the work; the lane is that of rank 0's call,
// which all ranks know. No rank returns before all have read the calls of the others.
void ThreadCommunicator::issue_to_gpu(const Call& call, int lane, WaitPolicy wait_policy) {
  CallSlots& slots = own_slots(lane);
  Rendezvous& rendezvous = rendezvous_of(call, lane);
  if (!agree(rendezvous)) throw_mismatch(call, lane, wait_policy);
  Slot& shared = slots_of(0, call.sequence, lane).slot(call.sequence);
  GpuLane* gpu = nullptr;
  try {
    gpu = &group_.gpu_lane(posted(call.sequence, lane).lanes[0], call.stream->queue().index());
    if (shared.taken.fetch_or(1) == 0) issue_all(rendezvous, *gpu, call.sequence);
  } catch (...) {
    slots.working.store(0);
    throw;
  }
  slots.working.store(0);
  if (shared.done.fetch_add(1) + 1 == size()) group_.event_count.notify();
  const auto ready = [&] { return shared.done.load() == size(); };
  const auto stop = [&] { return world_.is_aborted(); };
  if (!wait_until(group_.event_count, wait_policy, ready, stop)) leave(call.sequence);
  done_on_gpu_[static_cast<size_t>(lane)] =
      gpu->done[static_cast<size_t>(call.sequence) % kSlots].get();
  slots.seen.store(call.sequence, std::memory_order_release);
}

void ThreadCommunicator::issue_all(Rendezvous& rendezvous, GpuLane& gpu, int64_t sequence) {
  for (const Call* call : rendezvous.calls) {
    gpu.queue.wait_for(*call->ready);
    if (call->after != nullptr) gpu.queue.wait_for(*call->after);
  }
  work_on_gpu(gpu.queue, rendezvous.calls);
  gpu.done[static_cast<size_t>(sequence) % kSlots]->record(gpu.queue);
}

// May be called by any thread of either side, also by a progress thread, which cannot throw: the
// error is kept for this side, and the other one learns of it by the abort.
bool ThreadCommunicator::copy_on_gpu(Exchange& exchange) {
  try {
    const Call &send = exchange.send, &receive = exchange.receive;
    const int index = send.stream->queue().index();
    gpu::Queue& queue =
        group_.mailbox(receive.root, send.root).queue(index);  // each names its peer
    if (!exchange.copied) exchange.copied = std::make_unique<gpu::Event>(index);
    queue.wait_for(*send.ready);
    queue.wait_for(*receive.ready);
    queue.copy(receive.out, send.in, send.count * size_of(send.dtype));
    exchange.copied->record(queue);
    return true;
  } catch (const Error& error) {
    copy_error_ = std::current_exception();
    world_.abort(own_world_rank(), concat("rank ", own_world_rank(), " failed: ", error.what()));
    return false;
  }
}

}  // namespace sextant::threads

#include "comm/threads/thread_communicator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace sextant::threads {

ThreadCommunicator::ThreadCommunicator(World& world, Group& group, int rank)
    : Communicator(rank, group.size(), group.name,
                   world.rank(group.world_ranks[static_cast<size_t>(rank)]).ledger),
      world_(world),
      group_(group) {
  for (Rendezvous& rendezvous : rendezvous_) {
    rendezvous.rank = rank;
    rendezvous.calls.resize(static_cast<size_t>(size()));
    rendezvous.inputs.resize(static_cast<size_t>(size()));
    rendezvous.outputs.resize(static_cast<size_t>(size()));
  }
  for (auto& lane : posted_)
    for (Posted& posted : lane) posted.lanes.resize(static_cast<size_t>(size()));
  for (auto& lane : seen_) lane.resize(static_cast<size_t>(kLanes * size()));
}

ThreadCommunicator::~ThreadCommunicator() {
  state().progress_thread.forget(*this);
  world_.leave(group_);
}

// Needs no communication: all members pass the same list, and the groups of one call have different
// first ranks.
std::unique_ptr<Communicator> ThreadCommunicator::make_subgroup(std::span<const int> ranks, int own,
                                                                const std::string& name) {
  std::vector<int> world_ranks;
  for (const int peer : ranks) world_ranks.push_back(world_rank(peer));
  Group& group = world_.join({group_.id, ++splits_, ranks.front()}, name, world_ranks);
  return std::make_unique<ThreadCommunicator>(world_, group, own);
}

void ThreadCommunicator::abort(const std::string& reason) {
  world_.abort(own_world_rank(), concat("rank ", own_world_rank(), " aborted: ", reason));
}

void ThreadCommunicator::check_alive() {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
}

int64_t ThreadCommunicator::start(const Call& call) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  ProgressThread& progress_thread = state().progress_thread;
  const int64_t number = progress_thread.take_ticket();
  Ticket& ticket = progress_thread.ticket(number);
  ticket.call = call;
  if (is_alone_on_gpu(call)) {
    work_alone(call);
    ticket.done_on_gpu = nullptr;
    ticket.done.store(true);
    return number;
  }
  if (call.stream != nullptr) {
    if (!ticket.ready) ticket.ready = std::make_unique<gpu::Event>(call.stream->queue().index());
    ticket.ready->record(call.stream->queue());
    ticket.call.ready = ticket.ready.get();
  }
  if (!is_message(call.operation)) {
    ticket.follows = std::exchange(follows_, nullptr);
    progress_thread.add({.communicator = this, .ticket = &ticket});
    return number;
  }
  Mailbox& mailbox = mailbox_of(call);
  Exchange& exchange = mailbox.post(ticket.call);
  ticket.exchange = &exchange;
  if (exchange.state.load() == Exchange::Open) return number;
  group_.event_count.notify();
  mailbox.add_user(exchange);
  progress_thread.add(
      {.communicator = this, .ticket = nullptr, .exchange = &exchange, .call = call});
  return number;
}

// The progress thread issues the calls of a rank in the order in which they were started, so the
// end of the earlier one is known when the later one is issued.
void ThreadCommunicator::start_after(int64_t number) {
  Ticket& ticket = state().progress_thread.ticket(number);
  SXT_CHECK(ticket.exchange == nullptr, Internal, name(), ": a collective cannot follow a message");
  if (follows_ != nullptr) --follows_->followers;
  follows_ = &ticket;
  ++ticket.followers;
}

void ThreadCommunicator::run(const Job& job, WaitPolicy wait_policy) {
  if (job.exchange != nullptr) {
    if (job.exchange->try_claim()) copy_beside(*job.exchange, job.call);
    mailbox_of(job.call).release(*job.exchange);
    return;
  }
  Ticket& ticket = *job.ticket;
  try {
    const Running running(*this, ticket.call);
    if (ticket.follows != nullptr) ticket.call.after = ticket.follows->done_on_gpu;
    run_collective(ticket.call, When::Later, wait_policy);
    ticket.done_on_gpu = done_on_gpu_[static_cast<size_t>(When::Later)];
  } catch (...) {
    ticket.error = std::current_exception();
  }
  if (ticket.follows != nullptr) --ticket.follows->followers;
  ticket.done.store(true);
}

// Nothing is left to do for a message that a progress thread has copied, and its time is counted.
void ThreadCommunicator::finish_message(Ticket& ticket) {
  if (ticket.exchange->is_over()) {
    complete(*ticket.exchange, ticket.call);
    ledger().recorder.end(ticket.call.event, ledger().clock.now());
    return;
  }
  const Running running(*this, ticket.call);
  complete(*ticket.exchange, ticket.call);
}

void ThreadCommunicator::finish(int64_t number) {
  ProgressThread& progress_thread = state().progress_thread;
  Ticket& ticket = progress_thread.ticket(number);
  std::exception_ptr error;
  if (ticket.exchange != nullptr) {
    try {
      finish_message(ticket);
    } catch (...) {
      error = std::current_exception();
    }
  } else {
    progress_thread.wait(ticket, world_.wait_policy());
    error = ticket.error;
    if (!error && ticket.call.stream != nullptr && ticket.done_on_gpu != nullptr)
      run_after(ticket.call, *ticket.done_on_gpu);
  }
  progress_thread.return_ticket(number);
  if (error) std::rethrow_exception(error);
}

}  // namespace sextant::threads

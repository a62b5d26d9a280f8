// Messages: sender and receiver are matched in a mailbox. The data is copied from the sender's to
// the receiver's memory by whichever is first: a waiting rank, or the progress thread of the side
// that posted second.
#include "base/error.h"
#include "comm/mismatch.h"
#include "comm/reduce.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

Mailbox& ThreadCommunicator::mailbox_of(const Call& call) {
  return call.operation == Operation::Send ? group_.mailbox(rank(), call.root)
                                           : group_.mailbox(call.root, rank());
}

void ThreadCommunicator::copy(Exchange& exchange) {
  end(exchange, copy_data(exchange));
}

// A copy on a progress thread. It is counted here, before the rank can see the message as done; a
// copy by a waiting rank is part of its wait.
void ThreadCommunicator::copy_beside(Exchange& exchange, const Call& call) {
  Exchange::State state = Exchange::Done;
  {
    const Running running(*this, call);
    state = copy_data(exchange);
  }
  end(exchange, state);
}

Exchange::State ThreadCommunicator::copy_data(Exchange& exchange) {
  if (exchange.send.stream != nullptr)
    return copy_on_gpu(exchange) ? Exchange::Done : Exchange::Dropped;
  copy_into(exchange.receive.out, exchange.send.in, message_bytes(exchange.send));
  return Exchange::Done;
}

void ThreadCommunicator::end(Exchange& exchange, Exchange::State state) {
  exchange.state.store(state);
  group_.event_count.notify();
}

void ThreadCommunicator::exchange(const Call& call) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  Call posted = call;
  if (call.stream != nullptr) posted.ready = &mark_ready(call);
  Exchange& exchange = mailbox_of(call).post(posted);
  group_.event_count.notify();
  complete(exchange, call);
}

// Releases the caller's use of the exchange, also when it throws.
void ThreadCommunicator::complete(Exchange& exchange, const Call& call) {
  Mailbox& mailbox = mailbox_of(call);
  std::optional<Deadline> deadline;
  const auto ready = [&] {
    if (exchange.try_claim()) copy(exchange);
    return exchange.is_over();
  };
  const auto stop = [&] { return is_over(deadline) || has_finished(call.root); };
  if (!wait_until(group_.event_count, world_.wait_policy(), ready, stop)) {
    if (!world_.is_aborted() && exchange.state.load() == Exchange::Open)
      report_missing(call, {call.root});
    mailbox.drop(exchange);
    while (!exchange.is_over()) yield_thread();  // another thread is copying
  }
  const int outcome = exchange.state.load();
  const Call send = exchange.send, receive = exchange.receive;
  if (outcome == Exchange::Done && call.stream != nullptr) run_after(call, *exchange.copied);
  mailbox.release(exchange);
  if (outcome == Exchange::Done) return;
  if (outcome == Exchange::Dropped && copy_error_) std::rethrow_exception(copy_error_);
  if (outcome == Exchange::Dropped) world_.throw_aborted(own_world_rank());
  throw Error(Fault::Peer, describe_mismatch(name(), call, receive.root, to_string(send), send.root,
                                             to_string(receive)));
}

}  // namespace sextant::threads

// Messages: sender and receiver are matched in a mailbox. The data is copied from the sender's to
// the receiver's memory by whichever is first: a waiting rank, or the progress thread of the side
// that posted second.
#include "base/error.h"
#include "comm/fold.h"
#include "comm/mismatch.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

Mailbox& ThreadCommunicator::mailbox_of(const Call& call) {
  return call.operation == Operation::Send ? group_.mailbox(rank(), call.root)
                                           : group_.mailbox(call.root, rank());
}

void ThreadCommunicator::copy(Exchange& exchange) {
  copy_data(exchange);
  set_done(exchange);
}

// A copy on a progress thread. It is counted here, before the rank can see the message as done; a
// copy by a waiting rank is part of its wait.
void ThreadCommunicator::copy_beside(Exchange& exchange, const Call& call) {
  {
    const Running running(*this, call);
    copy_data(exchange);
  }
  set_done(exchange);
}

void ThreadCommunicator::copy_data(Exchange& exchange) {
  copy_into(exchange.receive.out, exchange.send.in,
            exchange.send.count * size_of(exchange.send.dtype));
}

void ThreadCommunicator::set_done(Exchange& exchange) {
  exchange.state.store(Exchange::Done);
  group_.bell.ring();
}

void ThreadCommunicator::exchange(const Call& call) {
  if (world_.is_aborted()) world_.throw_aborted(own_world_rank());
  Exchange& exchange = mailbox_of(call).post(call);
  group_.bell.ring();
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
  if (!wait_until(group_.bell, world_.wait_policy(), ready, stop)) {
    if (!world_.is_aborted() && exchange.state.load() == Exchange::Open)
      report_missing(call, {call.root});
    mailbox.drop(exchange);
    while (!exchange.is_over()) give_way();  // another thread is copying
  }
  const int outcome = exchange.state.load();
  const Call send = exchange.send, receive = exchange.receive;
  mailbox.release(exchange);
  if (outcome == Exchange::Done) return;
  if (outcome == Exchange::Dropped) world_.throw_aborted(own_world_rank());
  throw Error(Fault::Peer, describe_mismatch(name(), call, receive.root, to_string(send), send.root,
                                             to_string(receive)));
}

}  // namespace sextant::threads

#include "comm/threads/mailbox.h"

namespace sextant::threads {

Exchange& Mailbox::post(const Call& call) {
  const bool sends = call.operation == Operation::Send;
  const std::lock_guard lock(mutex_);
  Exchange* exchange = first_;
  if (exchange != nullptr && !(sends ? exchange->has_send : exchange->has_receive)) {
    first_ = exchange->next;
    if (first_ == nullptr) last_ = nullptr;
    (sends ? exchange->send : exchange->receive) = call;
    (sends ? exchange->has_send : exchange->has_receive) = true;
    ++exchange->users;
    const bool fits = exchange->send.dtype == exchange->receive.dtype &&
                      exchange->send.count == exchange->receive.count &&
                      (exchange->send.stream == nullptr) == (exchange->receive.stream == nullptr);
    exchange->state.store(fits ? Exchange::Matched : Exchange::Refused);
    return *exchange;
  }
  exchange = unused_;
  if (exchange != nullptr) {
    unused_ = exchange->next;
  } else {
    all_.push_back(std::make_unique<Exchange>());
    exchange = all_.back().get();
  }
  exchange->state.store(Exchange::Open);
  (sends ? exchange->send : exchange->receive) = call;
  exchange->has_send = sends;
  exchange->has_receive = !sends;
  exchange->users = 1;
  exchange->next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = exchange;
  last_ = exchange;
  return *exchange;
}

void Mailbox::add_user(Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  ++exchange.users;
}

void Mailbox::release(Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  if (--exchange.users > 0) return;
  exchange.next = unused_;
  unused_ = &exchange;
}

void Mailbox::drop(Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  int expected = Exchange::Matched;
  if (exchange.state.compare_exchange_strong(expected, Exchange::Dropped)) return;
  if (expected != Exchange::Open) return;
  Exchange** link = &first_;
  Exchange* before = nullptr;
  while (*link != &exchange) {
    before = *link;
    link = &before->next;
  }
  *link = exchange.next;
  if (last_ == &exchange) last_ = before;
  exchange.state.store(Exchange::Dropped);
}

gpu::Queue& Mailbox::queue(int index) {
  const std::lock_guard lock(mutex_);
  if (!queue_) queue_ = std::make_unique<gpu::Queue>(index);
  return *queue_;
}

}  // namespace sextant::threads

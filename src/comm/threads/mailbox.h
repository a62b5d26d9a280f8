#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/call.h"
#include "tensor/gpu.h"

namespace sextant::threads {

// A message that the sender, the receiver, or both have posted.
//   Open      posted by one side
//   Matched   posted by both; the thread that claims it copies the data
//   Claimed   being copied
//   Done      copied
//   Refused   the two calls do not match
//   Dropped   the world was aborted
struct Exchange {
  enum State : int { Open, Matched, Claimed, Done, Refused, Dropped };

  std::atomic<int> state{Open};
  Call send, receive;
  bool has_send = false, has_receive = false;
  int users = 0;                       // sides and progress threads that may still access it
  Exchange* next = nullptr;            // in a list of the mailbox
  std::unique_ptr<gpu::Event> copied;  // on a GPU: the end of the copy, recorded before Done

  bool try_claim() {
    int expected = Matched;
    return state.compare_exchange_strong(expected, Claimed);
  }
  bool is_over() const {
    const int now = state.load();
    return now == Done || now == Refused || now == Dropped;
  }
};

// The messages from one rank of a group to another, matched in the order in which they are posted.
class Mailbox {
 public:
  // Matches the call with the oldest open one of the other side, or queues it. The caller is a user
  // of the exchange until release.
  Exchange& post(const Call& call);
  void add_user(Exchange& exchange);
  void release(Exchange& exchange);
  // Prevents the copy, unless it has begun.
  void drop(Exchange& exchange);
  // On a GPU: the queue of its copies, one after another. For the thread that copies.
  gpu::Queue& queue(int index);

 private:
  std::mutex mutex_;
  Exchange *first_ = nullptr, *last_ = nullptr;  // open, all with the same side missing
  Exchange* unused_ = nullptr;
  std::vector<std::unique_ptr<Exchange>> all_;
  std::unique_ptr<gpu::Queue> queue_;
};

}  // namespace sextant::threads

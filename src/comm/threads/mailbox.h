#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/call.h"

namespace sextant::threads {

// A message on its way: one side has posted it, or both.
//   Open      one side waits for the other
//   Matched   both are there; whoever claims it first copies
//   Claimed   somebody copies
//   Done      copied
//   Refused   the two calls do not fit together
//   Dropped   the world is over
struct Exchange {
  enum State : int { Open, Matched, Claimed, Done, Refused, Dropped };

  std::atomic<int> state{Open};
  Call send, receive;
  bool has_send = false, has_receive = false;
  int users = 0;             // sides and progress threads that may still look at it
  Exchange* next = nullptr;  // in a list of the mailbox

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
  // Finds the other side or waits for it in line. The caller is a user of the exchange until it
  // releases it.
  Exchange& post(const Call& call);
  void add_user(Exchange& exchange);
  void release(Exchange& exchange);
  // Nobody will copy it any more, unless somebody has begun to.
  void drop(Exchange& exchange);

 private:
  std::mutex mutex_;
  Exchange *first_ = nullptr, *last_ = nullptr;  // open, all with the same side missing
  Exchange* unused_ = nullptr;
  std::vector<std::unique_ptr<Exchange>> all_;
};

}  // namespace sextant::threads

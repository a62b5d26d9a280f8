#pragma once
#include <atomic>
#include <thread>

#include "base/error.h"
#include "fault/deadline.h"

namespace sextant {

// A spinning barrier of threads with minimal cost: a lower bound for the synchronisation of any
// collective. Yields when there are fewer cores than threads. For benchmarks only.
class Rendezvous {
 public:
  Rendezvous(int threads, int cores, const Clock& clock, double timeout_s)
      : threads_(threads), spins_(threads <= cores ? 20000 : 0), clock_(clock), limit_(timeout_s) {}

  // Returns when all threads have arrived; Error(Peer) when some have not before the deadline.
  void meet() {
    const unsigned turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int i = 0; i < spins_; ++i)
      if (turn_.load(std::memory_order_acquire) != turn) return;
    const Deadline deadline(clock_, limit_);
    while (turn_.load(std::memory_order_acquire) == turn) {
      std::this_thread::yield();
      SXT_CHECK(!deadline.is_over(), Peer, "a rank did not come within ", limit_, " s");
    }
  }

 private:
  int threads_, spins_;
  const Clock& clock_;
  double limit_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> turn_{0};
};

}  // namespace sextant

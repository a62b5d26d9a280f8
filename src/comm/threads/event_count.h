#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace sextant::threads {

// An eventcount on a futex. A thread that changes state calls notify; a sleeper increments
// sleepers_ and then checks the state once more. Between these two steps the sleeper executes a
// barrier on all threads of the process (membarrier), so no wake-up is lost although notify needs
// no fence of its own: notify is part of every call and seldom wakes anybody.
class EventCount {
 public:
  void notify() {
    if (!kHasMembarrier) fence();
    if (sleepers_.load(std::memory_order_relaxed) != 0) wake();
  }
  // Returns after a notify, when `ready` holds, or after a few milliseconds.
  template <class Ready>
  void sleep(Ready&& ready) {
    sleepers_.fetch_add(1);
    const uint32_t seen = epoch_.load();
    fence_all();
    if (!ready()) sleep_while(seen);
    sleepers_.fetch_sub(1);
  }

 private:
  static const bool kHasMembarrier;  // the system supports the barrier
  void wake();
  void sleep_while(uint32_t seen);
  void fence();
  static void fence_all();

  std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
};

// What a waiting thread does before it sleeps.
//   Spin    every rank has its own core: spin for as long as ranks are usually apart
//   Yield   there are more threads than cores: yield at once, as a peer may need this core
enum class WaitPolicy { Spin, Yield };

// Prefetches memory for writing that other cores have read.
inline void prefetch_for_write([[maybe_unused]] const void* memory) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(memory)));
#endif
}

void pause_briefly();  // one iteration of a spin loop
void yield_thread();   // yields to another thread
int current_core();    // -1: unknown

// Waits until ready() and returns true, or until stop() and returns ready(). `ready` is checked
// first and often, `stop` (abort, deadline) less often.
template <class Ready, class Stop>
bool wait_until(EventCount& event_count, WaitPolicy wait_policy, Ready&& ready, Stop&& stop) {
  // Spins for about the time that waking a sleeper takes. With other programs running, a peer may
  // need this core, so it yields every few microseconds.
  constexpr int kRounds = 16, kLooks = 128, kHastyLooks = 4;
  const bool spins = wait_policy == WaitPolicy::Spin;
  for (int round = 0; round < (spins ? kRounds : 1); ++round) {
    for (int look = 0; look < (spins ? kLooks : kHastyLooks); ++look) {
      if (ready()) return true;
      pause_briefly();
    }
    if (stop()) return ready();
    yield_thread();
  }
  // On a machine with much else to do a yield may take a second: then the thread sleeps sooner.
  constexpr int kYields = 64;
  constexpr std::chrono::milliseconds kMostYielding(20);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kYields && std::chrono::steady_clock::now() - begin < kMostYielding; ++i) {
    if (ready()) return true;
    yield_thread();
  }
  while (!ready()) {
    if (stop()) return ready();
    event_count.sleep(ready);
  }
  return true;
}

}  // namespace sextant::threads

#pragma once
#include <atomic>
#include <cstdint>

namespace sextant::threads {

// What threads sleep on until others have changed something. Whoever changes it rings; a sleeper
// counts itself in before it looks a last time. So that no change is missed, either the change or
// the count has to be seen by the other side: it is the sleeper who has every thread of the process
// pass a barrier in between, because those who ring do so in every call and seldom wake anybody.
class Bell {
 public:
  void ring() {
    if (!kSleepersFence) fence();
    if (sleepers_.load(std::memory_order_relaxed) != 0) wake();
  }
  // Until it rings, `ready` holds, or a few milliseconds have passed.
  template <class Ready>
  void sleep(Ready&& ready) {
    sleepers_.fetch_add(1);
    const uint32_t seen = rung_.load();
    fence_all();
    if (!ready()) sleep_while(seen);
    sleepers_.fetch_sub(1);
  }

 private:
  static const bool kSleepersFence;  // the system can do that
  void wake();
  void sleep_while(uint32_t seen);
  void fence();
  static void fence_all();

  std::atomic<uint32_t> rung_{0};
  std::atomic<int> sleepers_{0};
};

// How long a thread looks again and again before it sleeps.
//   Spin    it has a core of its own: for as long as ranks are usually apart
//   Yield   there are more threads than cores: whoever is waited for needs this one
enum class Patience { Spin, Yield };

// Memory that this thread will write soon and others have read: asks for it ahead.
inline void expect_to_write([[maybe_unused]] const void* memory) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(memory)));
#endif
}

void pause_briefly();  // between two looks of a spinning thread
void give_way();       // to another thread
int current_core();    // -1: unknown

// Waits until `ready`; false when `stop` wants to wait no longer. `ready` is looked at first and
// often, `stop` (abort, deadline) from time to time.
template <class Ready, class Stop>
bool wait_until(Bell& bell, Patience patience, Ready&& ready, Stop&& stop) {
  // In all about as long as it takes to wake a sleeper. A core that spins may be the very one that
  // the other rank needs, when other programs run too, so it is offered after some microseconds.
  constexpr int kRounds = 16, kLooks = 128, kHastyLooks = 4;
  const bool spins = patience == Patience::Spin;
  for (int round = 0; round < (spins ? kRounds : 1); ++round) {
    for (int look = 0; look < (spins ? kLooks : kHastyLooks); ++look) {
      if (ready()) return true;
      pause_briefly();
    }
    if (stop()) return ready();
    give_way();
  }
  constexpr int kYields = 64;
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    give_way();
  }
  while (!ready()) {
    if (stop()) return ready();
    bell.sleep(ready);
  }
  return true;
}

}  // namespace sextant::threads

#include "comm/threads/event_count.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace sextant::threads {
namespace {

// Bounded, so that deadlines of any Clock are checked.
constexpr long kNap = 5'000'000;  // nanoseconds

}  // namespace

const bool EventCount::kHasMembarrier =
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

void EventCount::fence_all() {
  if (kHasMembarrier) ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void EventCount::fence() {
#if defined(__SANITIZE_THREAD__)  // TSan does not model fences
  sleepers_.fetch_add(0);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void EventCount::wake() {
  epoch_.fetch_add(1);
  ::syscall(SYS_futex, &epoch_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void EventCount::sleep_while(uint32_t seen) {
  const timespec nap = {0, kNap};
  ::syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, seen, &nap, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int current_core() {
  return ::sched_getcpu();
}

void yield_thread() {
  ::sched_yield();
}

}  // namespace sextant::threads

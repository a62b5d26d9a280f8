#include "comm/threads/bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace sextant::threads {
namespace {

// Bounded, so that deadlines of any clock are looked at.
constexpr long kNap = 5'000'000;  // nanoseconds

}  // namespace

void Bell::ring() {
  if (sleepers_.load() == 0) return;
  rung_.fetch_add(1);
  ::syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::sleep_while(uint32_t seen) {
  const timespec nap = {0, kNap};
  ::syscall(SYS_futex, &rung_, FUTEX_WAIT_PRIVATE, seen, &nap, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void give_way() {
  ::sched_yield();
}

}  // namespace sextant::threads

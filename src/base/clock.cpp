#include "base/clock.h"

#include <time.h>

#include <chrono>

namespace sextant {

double SystemClock::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// steady_clock as of the last kernel tick.
double SystemClock::recently() const {
#if defined(CLOCK_MONOTONIC_COARSE)
  timespec time = {};
  if (::clock_gettime(CLOCK_MONOTONIC_COARSE, &time) == 0)
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
#endif
  return now();
}

double SystemClock::wall() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace sextant

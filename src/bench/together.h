#pragma once
#include <algorithm>
#include <vector>

#include "bench/rendezvous.h"
#include "tensor/device.h"

namespace sextant {

// Times what all thread ranks do together. Every rank gets the same numbers.
class Together {
 public:
  Together(int ranks, const Clock& clock, double timeout_s)
      : rendezvous_(ranks, available_cores(), clock, timeout_s),
        periods_(static_cast<size_t>(ranks)),
        clock_(clock) {}

  void meet() { rendezvous_.meet(); }

  // Seconds from the first rank's start to the last one's end. All ranks call it.
  template <class F>
  double time(int rank, F&& work) {
    rendezvous_.meet();
    Period& own = periods_[static_cast<size_t>(rank)];
    own.begin = clock_.now();
    work();
    own.end = clock_.now();
    rendezvous_.meet();
    Period whole = own;
    for (const Period& one : periods_) {
      whole.begin = std::min(whole.begin, one.begin);
      whole.end = std::max(whole.end, one.end);
    }
    return whole.end - whole.begin;
  }

 private:
  struct Period {
    double begin = 0, end = 0;
  };

  Rendezvous rendezvous_;
  std::vector<Period> periods_;  // by rank
  const Clock& clock_;
};

}  // namespace sextant

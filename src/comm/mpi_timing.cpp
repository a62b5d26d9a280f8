#include "comm/mpi_timing.h"

#include <algorithm>

namespace sextant {

int Turns::calls(double seconds_of_one) const {
  constexpr double kMost = 20000;
  return static_cast<int>(std::clamp(seconds / std::max(seconds_of_one, 1e-9), 1.0, kMost));
}

}  // namespace sextant

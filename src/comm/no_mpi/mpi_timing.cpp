#include "comm/mpi_timing.h"

#include "base/error.h"

namespace sextant {

std::string mpi_library() {
  return "";
}

std::vector<double> time_native(std::span<const NativeTask>, const Turns&, const Clock&) {
  SXT_FAIL(Usage, "this build has no MPI: install libopenmpi-dev and build again");
}

}  // namespace sextant

#include "comm/mpi_world.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

// What a build with MPI does is tested under mpirun, in tests/mpi.
TEST(MpiWorld, OfABuildWithoutMpiSaysHowToGetIt) {
  if (MpiWorld::is_built()) GTEST_SKIP() << "this build has MPI";
  const SystemClock clock;
  EXPECT_ERROR(MpiWorld(Launch(), clock), Config, "libopenmpi-dev");
}

}  // namespace
}  // namespace sextant

#include "base/error.h"
#include "comm/mpi_world.h"

namespace sextant {

struct MpiWorld::State {};

bool MpiWorld::is_built() {
  return false;
}

MpiWorld::MpiWorld(const Launch&, const Clock&, const WorldOptions&) {
  SXT_FAIL(Config,
           "this build has no MPI: install libopenmpi-dev openmpi-bin and build again, or set "
           "run.transport=threads");
}

MpiWorld::~MpiWorld() = default;

Communicator& MpiWorld::world() {
  SXT_FAIL(Internal, "a world without MPI");
}

void MpiWorld::run(const std::function<void(Communicator&)>&) {
  SXT_FAIL(Internal, "a world without MPI");
}

}  // namespace sextant

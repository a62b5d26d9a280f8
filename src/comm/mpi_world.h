#pragma once
#include <functional>
#include <memory>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/run_ranks.h"

namespace sextant {

// Staging memory of the transport, outside of every arena: reductions receive into it.
inline constexpr int64_t kMpiStaging = int64_t{4} << 20;

// One process's handle to all ranks that mpirun or srun started. Initializes and finalizes MPI, so
// at most one per process. In a build without MPI the constructor throws Error(Config).
//
// How a command runs a layout of `ranks` ranks over MPI:
//   const Launch launch = find_launch(process_environment());
//   check_mpi_launch(launch, ranks, words of the command line);
//   if (launch.kind == LaunchKind::None) return run_mpirun(...);   // comm/mpirun.h
//   MpiWorld(launch, clock, options).run([&](Communicator& world) { ... });
class MpiWorld {
 public:
  static bool is_built();

  // Error(Config) when MPI's rank or size differs from the launcher's variables.
  MpiWorld(const Launch& launch, const Clock& clock, const WorldOptions& options = {});
  // Finalizes MPI after a successful run. After a failed one it does not: the process exits with
  // the code of its error, and the launcher ends the other ranks.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  Communicator& world();

  // Runs f(world()), then waits for all ranks to finish. An exception of f is rethrown after the
  // other ranks were notified; their calls then throw Error(Peer).
  void run(const std::function<void(Communicator&)>& f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant

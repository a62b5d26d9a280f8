#pragma once
#include <functional>
#include <memory>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/run_ranks.h"

namespace sextant {

// Memory that the transport takes beside every arena: what other ranks send is folded from here.
inline constexpr int64_t kMpiStaging = int64_t{4} << 20;

// One process's end of all the ranks that mpirun or srun started: MPI from its begin to its end, so
// one in a process. A build without MPI throws Error(Config) from the constructor.
//
// How a command runs a layout of `ranks` ranks over MPI:
//   const Launch launch = find_launch(process_environment());
//   check_mpi_launch(launch, ranks, words of the command line);
//   if (launch.kind == LaunchKind::None) return run_mpirun(...);   // comm/mpirun.h
//   MpiWorld(launch, clock, options).run([&](Communicator& world) { ... });
class MpiWorld {
 public:
  static bool is_built();

  // Error(Config) when MPI sees another rank or size than the launcher's variables tell.
  MpiWorld(const Launch& launch, const Clock& clock, const WorldOptions& options = {});
  // Ends MPI after a run that went well; after any other, leaves it as it is, for the process to
  // exit with its error's code and the launcher to end the other ranks.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  Communicator& world();

  // f(world()), then waits for the others to be done as well. What it throws is told to the other
  // ranks, whose calls then throw Error(Peer), and thrown on.
  void run(const std::function<void(Communicator&)>& f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// The value of an environment variable; a test gives its own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Set for the ranks of an mpirun that a `sextant` started and waits for (comm/mpirun.h).
inline constexpr const char* kParentVariable = "SEXTANT_PARENT";

enum class LaunchKind { None, OpenMpi, Slurm, Torchrun };

// What started this process as one of several, as far as the environment tells.
struct Launch {
  LaunchKind kind = LaunchKind::None;
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among those of this host
  bool has_parent = false;             // kParentVariable is set
  std::string text;                    // for the log: which variables were believed; "" for None
};

// A set of variables that is there in part, holds no numbers, or contradicts another set is
// Error(Config) that names the variable. mpirun's own go before those that srun left behind by
// starting its daemons; a shell that sbatch or salloc opened is no launcher.
Launch find_launch(const Environment& environment);

// Error(Config) unless this process may run a whole layout by itself, all ranks as its threads.
void check_threads_launch(const Launch& launch);
// Error(Config) unless the launch, if there is one, wires MPI and has `ranks` ranks. `command`:
// program and arguments, for the line that would work.
void check_mpi_launch(const Launch& launch, int ranks, const std::vector<std::string>& command);

}  // namespace sextant

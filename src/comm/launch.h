#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Looks up an environment variable; tests pass their own function.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Set for ranks whose mpirun was started by a `sextant` process that waits for it (comm/mpirun.h).
inline constexpr const char* kParentVariable = "SEXTANT_PARENT";

enum class LaunchKind { None, OpenMpi, Slurm, Torchrun };

// The launcher of this process and its place among the ranks, read from the environment.
struct Launch {
  LaunchKind kind = LaunchKind::None;
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  bool has_parent = false;             // kParentVariable is set
  std::string text;                    // for the log: which variables were used; "" for None
};

// Error(Config) that names the variable when a launcher's variables are incomplete, not numbers, or
// contradict those of another launcher. mpirun's variables take precedence over Slurm's, because
// mpirun may start its daemons by srun. An sbatch or salloc shell is not a launcher.
Launch find_launch(const Environment& environment);

// Error(Config) unless this process may run all `ranks` ranks of a layout as its threads.
// `command`: program and arguments, for the command line that the error suggests.
void check_threads_launch(const Launch& launch, int ranks, const std::vector<std::string>& command);
// Error(Config) unless the launcher, if there is one, supports MPI and started `ranks` ranks.
void check_mpi_launch(const Launch& launch, int ranks, const std::vector<std::string>& command);
// Error(Config) unless the launcher, if there is one, started `ranks` ranks.
void check_nccl_launch(const Launch& launch, int ranks);

}  // namespace sextant

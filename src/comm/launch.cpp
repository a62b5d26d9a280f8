#include "comm/launch.h"

#include <cstdlib>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

// The environment variables by which one launcher tells a process its rank.
struct Names {
  LaunchKind kind;
  const char* launcher;
  std::string rank, size, local_rank, local_size;  // local_size may be ""
  std::vector<std::string> others;                 // that must also be set
};

const Names kOpenMpi = {LaunchKind::OpenMpi,
                        "mpirun",
                        "OMPI_COMM_WORLD_RANK",
                        "OMPI_COMM_WORLD_SIZE",
                        "OMPI_COMM_WORLD_LOCAL_RANK",
                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                        {}};
const Names kTorchrun = {LaunchKind::Torchrun,
                         "torchrun",
                         "RANK",
                         "WORLD_SIZE",
                         "LOCAL_RANK",
                         "LOCAL_WORLD_SIZE",
                         {"MASTER_ADDR", "MASTER_PORT"}};
const Names kSlurm = {
    LaunchKind::Slurm, "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", {}};

int read_number(const Environment& environment, const std::string& name) {
  const std::string text = environment(name).value_or("");
  const std::optional<int64_t> value = parse_int(text);
  SXT_CHECK(value && *value >= 0 && *value <= std::numeric_limits<int>::max(), Config, name, "='",
            text, "' in the environment: must be a whole number from 0 on");
  return static_cast<int>(*value);
}

Launch read_set(const Environment& environment, const Names& names) {
  std::vector<std::string> needed = {names.rank, names.size, names.local_rank};
  if (!names.local_size.empty()) needed.push_back(names.local_size);
  needed.insert(needed.end(), names.others.begin(), names.others.end());
  std::string present;
  for (const std::string& name : needed)
    if (present.empty() && environment(name)) present = name;
  for (const std::string& name : needed)
    SXT_CHECK(environment(name), Config, "the environment is half set: ", present, " is there, ",
              name, " is missing; start with ", names.launcher, ", or unset ", present);
  Launch launch;
  launch.kind = names.kind;
  launch.rank = read_number(environment, names.rank);
  launch.size = read_number(environment, names.size);
  launch.local_rank = read_number(environment, names.local_rank);
  // If it is not set: the most ranks that can share this host.
  launch.local_size =
      names.local_size.empty() ? launch.size : read_number(environment, names.local_size);
  SXT_CHECK(launch.rank < launch.size, Config, names.rank, "=", launch.rank, " and ", names.size,
            "=", launch.size,
            " contradict each other: ranks count from 0 to one less than the size");
  SXT_CHECK(launch.local_rank < launch.local_size && launch.local_size <= launch.size, Config,
            names.local_rank, "=", launch.local_rank, " does not fit ", launch.local_size,
            " ranks on this host and ", launch.size, " in all");
  return launch;
}

bool has_any(const Environment& environment, std::span<const std::string> names) {
  for (const std::string& name : names)
    if (environment(name)) return true;
  return false;
}

// An sbatch shell has SLURM_PROCID=0 and perhaps SLURM_NTASKS, like an srun task, but no step id or
// a reserved one (from 0xfffffff0 on). A salloc shell has no SLURM_PROCID.
bool is_srun_task(const Environment& environment) {
  constexpr int64_t kReservedSteps = 0xfffffff0;
  std::optional<std::string> step = environment("SLURM_STEP_ID");
  if (!step) step = environment("SLURM_STEPID");
  if (step) return parse_int(*step).value_or(kReservedSteps) < kReservedSteps;
  const std::string task = environment("SLURM_PROCID").value_or("0");
  SXT_CHECK(task == "0", Config, "the environment is half set: SLURM_PROCID=", task,
            " is there, SLURM_STEP_ID is missing; start with srun, or unset SLURM_PROCID");
  return false;
}

// Tasks on node `node` in a list such as "4(x2),3".
std::optional<int> tasks_on_node(const std::string& list, int node) {
  for (const std::string& part : split(list, ',')) {
    const size_t open = part.find("(x");
    const std::optional<int64_t> tasks = parse_int(part.substr(0, open));
    std::optional<int64_t> nodes = 1;
    if (open != std::string::npos && part.ends_with(')'))
      nodes = parse_int(part.substr(open + 2, part.size() - open - 3));
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return static_cast<int>(*tasks);
    node -= static_cast<int>(*nodes);
  }
  return std::nullopt;
}

Launch read_srun(const Environment& environment) {
  Launch launch = read_set(environment, kSlurm);
  if (environment("SLURM_STEP_NUM_TASKS")) {
    const int tasks = read_number(environment, "SLURM_STEP_NUM_TASKS");
    SXT_CHECK(tasks == launch.size, Config, "SLURM_NTASKS=", launch.size,
              " and SLURM_STEP_NUM_TASKS=", tasks, " contradict each other: unset SLURM_NTASKS");
  }
  const std::optional<std::string> list = environment("SLURM_STEP_TASKS_PER_NODE");
  if (list && environment("SLURM_NODEID")) {
    const std::optional<int> tasks = tasks_on_node(*list, read_number(environment, "SLURM_NODEID"));
    if (tasks && *tasks > launch.local_rank && *tasks <= launch.size) launch.local_size = *tasks;
  }
  return launch;
}

std::string describe(const Launch& launch, const Names& names) {
  return concat("started by ", names.launcher, ": rank ", launch.rank, " of ", launch.size, ", ",
                launch.local_rank, " of ", launch.local_size, " on this host (", names.rank, ", ",
                names.size, ", ", names.local_rank, ")");
}

// From a shell that may have torchrun's variables, which would contradict those of mpirun.
std::string mpirun_line(int ranks, const std::vector<std::string>& command) {
  std::string line = "env";
  for (const std::string& name :
       {kTorchrun.rank, kTorchrun.size, kTorchrun.local_rank, kTorchrun.local_size})
    line += " -u " + name;
  line += concat(" mpirun -n ", ranks);
  for (const std::string& word : command) line += " " + shell_quoted(word);
  return line;
}

const char* launcher_of(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::OpenMpi:
      return kOpenMpi.launcher;
    case LaunchKind::Slurm:
      return kSlurm.launcher;
    case LaunchKind::Torchrun:
      return kTorchrun.launcher;
    case LaunchKind::None:
      break;
  }
  return "nothing";
}

void check_size(const Launch& launch, int ranks) {
  SXT_CHECK(launch.kind == LaunchKind::None || launch.size == ranks, Config,
            launcher_of(launch.kind), " started ", launch.size,
            launch.size == 1 ? " rank" : " ranks", ", but the layout of [parallel] has ", ranks,
            ": start it with ", launch.kind == LaunchKind::Torchrun ? "--nproc-per-node " : "-n ",
            ranks);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Launch find_launch(const Environment& environment) {
  const std::vector<std::string> mpirun = {kOpenMpi.rank, kOpenMpi.size, kOpenMpi.local_rank,
                                           kOpenMpi.local_size};
  const std::vector<std::string> torchrun = {kTorchrun.rank, kTorchrun.size, kTorchrun.local_rank,
                                             kTorchrun.local_size};
  Launch launch;
  if (has_any(environment, torchrun)) {
    launch = read_set(environment, kTorchrun);
    launch.text = describe(launch, kTorchrun);
  }
  if (has_any(environment, mpirun)) {
    const Launch torch = launch;
    launch = read_set(environment, kOpenMpi);
    SXT_CHECK(
        torch.kind == LaunchKind::None || (torch.rank == launch.rank && torch.size == launch.size),
        Config, "the environment contradicts itself: mpirun's says rank ", launch.rank, " of ",
        launch.size, " (", kOpenMpi.rank, "), torchrun's rank ", torch.rank, " of ", torch.size,
        " (", kTorchrun.rank, "); unset one of the two");
    launch.text = describe(launch, kOpenMpi);
  } else if (launch.kind == LaunchKind::None && is_srun_task(environment)) {
    launch = read_srun(environment);
    launch.text = describe(launch, kSlurm);
  }
  launch.has_parent =
      launch.kind == LaunchKind::OpenMpi && environment(kParentVariable).has_value();
  return launch;
}

void check_threads_launch(const Launch& launch, int ranks,
                          const std::vector<std::string>& command) {
  std::string other = "set --run.transport=mpi";
  if (launch.kind == LaunchKind::Torchrun) {  // which starts no MPI
    std::vector<std::string> over_mpi = command;
    over_mpi.push_back("--run.transport=mpi");
    other = "start processes over MPI: " + mpirun_line(ranks, over_mpi);
  }
  SXT_CHECK(launch.size == 1, Config, "run.transport=threads runs all ranks in one process, but ",
            launcher_of(launch.kind), " started ", launch.size,
            ": start one process without it, or ", other);
}

void check_mpi_launch(const Launch& launch, int ranks, const std::vector<std::string>& command) {
  SXT_CHECK(launch.kind != LaunchKind::Torchrun, Config,
            "torchrun wires no MPI, which run.transport=mpi needs; this works: ",
            mpirun_line(ranks, command));
  check_size(launch, ranks);
}

void check_nccl_launch(const Launch& launch, int ranks) {
  check_size(launch, ranks);
}

}  // namespace sextant

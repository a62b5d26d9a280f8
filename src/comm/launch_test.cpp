#include "comm/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/parse.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using Variables = std::map<std::string, std::string>;

Launch find(const Variables& variables) {
  return find_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

Variables mpirun(int rank, int size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}

Variables torchrun(int rank, int size) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Variables srun(int rank, int size) {
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(size)},
          {"SLURM_LOCALID", "1"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
          {"SLURM_NODEID", "2"}};
}

Variables operator+(Variables left, const Variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Launch, AnOrdinaryShellIsNoLauncher) {
  const Launch launch = find({{"PATH", "/bin"}, {"MASTER_ADDR", "a"}});
  EXPECT_EQ(launch.kind, LaunchKind::None);
  EXPECT_EQ(launch.size, 1);
  EXPECT_EQ(launch.text, "");
}

TEST(Launch, MpirunTellsRankAndSizeAndIsNamed) {
  const Launch launch = find(mpirun(3, 4));
  EXPECT_EQ(launch.kind, LaunchKind::OpenMpi);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_FALSE(launch.has_parent);
  EXPECT_NE(launch.text.find("started by mpirun: rank 3 of 4, 1 of 2 on this host"),
            std::string::npos)
      << launch.text;
  EXPECT_NE(launch.text.find("OMPI_COMM_WORLD_RANK"), std::string::npos);
}

TEST(Launch, OnlyAnMpirunCanHaveASextantThatWaits) {
  EXPECT_TRUE(find(mpirun(0, 4) + Variables{{kParentVariable, "1"}}).has_parent);
  EXPECT_FALSE(find({{kParentVariable, "1"}}).has_parent);
}

TEST(Launch, TorchrunTellsRankAndSize) {
  const Launch launch = find(torchrun(5, 8));
  EXPECT_EQ(launch.kind, LaunchKind::Torchrun);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_size, 2);
}

TEST(Launch, SrunTellsRankAndSizeAndTheTasksOfItsNode) {
  const Launch launch = find(srun(9, 11));
  EXPECT_EQ(launch.kind, LaunchKind::Slurm);
  EXPECT_EQ(launch.rank, 9);
  EXPECT_EQ(launch.size, 11);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 3);
  Variables first = srun(9, 11);
  first["SLURM_NODEID"] = "1";
  EXPECT_EQ(find(first).local_size, 4);
  EXPECT_EQ(find(without(first, "SLURM_NODEID")).local_size, 11);
}

TEST(Launch, TheShellOfABatchJobIsNoLauncher) {
  const Variables sbatch = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(find(sbatch).kind, LaunchKind::None);
  EXPECT_EQ(find(sbatch + Variables{{"SLURM_STEP_ID", "4294967291"}}).kind, LaunchKind::None);
  EXPECT_EQ(find({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}}).kind, LaunchKind::None);
}

TEST(Launch, MpirunGoesBeforeTheSrunThatStartedItsDaemons) {
  const Launch launch = find(mpirun(3, 4) + srun(1, 2));
  EXPECT_EQ(launch.kind, LaunchKind::OpenMpi);
  EXPECT_EQ(launch.size, 4);
}

TEST(Launch, AHalfSetEnvironmentIsRefusedByTheNameThatIsMissing) {
  for (const Variables& all : {mpirun(1, 2), torchrun(1, 2)})
    for (const auto& [name, value] : all)
      EXPECT_ERROR(find(without(all, name)), Config, name + " is missing");
  EXPECT_ERROR(find(without(srun(1, 2), "SLURM_PROCID")), Config, "SLURM_PROCID is missing");
  EXPECT_ERROR(find(without(srun(1, 2), "SLURM_NTASKS")), Config, "SLURM_NTASKS is missing");
  EXPECT_ERROR(find(without(srun(1, 2), "SLURM_STEP_ID")), Config, "SLURM_STEP_ID is missing");
}

TEST(Launch, NumbersThatCannotBeAreRefused) {
  for (const std::string bad : {"", "x", "-1", "1.5", "99999999999"})
    EXPECT_ERROR(find(mpirun(1, 2) + Variables{{"OMPI_COMM_WORLD_RANK", bad}}), Config,
                 "OMPI_COMM_WORLD_RANK='" + bad + "'");
  EXPECT_ERROR(find(mpirun(4, 4)), Config, "OMPI_COMM_WORLD_RANK=4 and OMPI_COMM_WORLD_SIZE=4");
  EXPECT_ERROR(find(mpirun(0, 1)), Config, "OMPI_COMM_WORLD_LOCAL_RANK=1");
}

TEST(Launch, SetsThatContradictEachOtherAreRefused) {
  EXPECT_ERROR(find(mpirun(1, 4) + torchrun(1, 8)), Config,
               "mpirun's says rank 1 of 4 (OMPI_COMM_WORLD_RANK), torchrun's rank 1 of 8");
  EXPECT_EQ(find(mpirun(1, 4) + torchrun(1, 4)).kind, LaunchKind::OpenMpi);
  EXPECT_ERROR(find(srun(1, 4) + Variables{{"SLURM_NTASKS", "8"}}), Config,
               "SLURM_STEP_NUM_TASKS=4");
}

TEST(Launch, ThreadsRefuseToBeStartedSeveralTimes) {
  const std::vector<std::string> command = {"sextant", "train", "my run.toml"};
  check_threads_launch(find({}), 4, command);
  check_threads_launch(find(mpirun(0, 1) + Variables{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
                       4, command);
  EXPECT_ERROR(check_threads_launch(find(mpirun(0, 4)), 4, command), Config,
               "mpirun started 4: start one process without it, or set --run.transport=mpi");
  // torchrun wires no MPI: what is advised must not be refused next.
  EXPECT_ERROR(check_threads_launch(find(torchrun(0, 4)), 4, command), Config,
               "torchrun started 4: start one process without it, or start processes over MPI: "
               "env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u LOCAL_WORLD_SIZE "
               "mpirun -n 4 sextant train 'my run.toml' --run.transport=mpi");
}

TEST(Launch, MpiNeedsALauncherThatWiresItAndTheRanksOfTheLayout) {
  const std::vector<std::string> command = {"sextant", "train", "my run.toml"};
  check_mpi_launch(find({}), 4, command);
  check_mpi_launch(find(mpirun(0, 4)), 4, command);
  EXPECT_ERROR(check_mpi_launch(find(torchrun(0, 4)), 4, command), Config,
               "mpirun -n 4 sextant train 'my run.toml'");
  // In a shell that has torchrun's variables every rank of the advised line starts.
  std::string advice;
  try {
    check_mpi_launch(find(torchrun(0, 2)), 4, command);
  } catch (const Error& error) {
    advice = error.what();
  }
  Variables shell = torchrun(0, 2);
  for (const std::string& part : split(advice.substr(0, advice.find(" mpirun ")), ' '))
    shell.erase(part);
  for (int rank = 0; rank < 4; ++rank) check_mpi_launch(find(mpirun(rank, 4) + shell), 4, command);
  EXPECT_ERROR(find(mpirun(1, 4) + torchrun(0, 2)), Config, "contradicts itself");
  EXPECT_ERROR(check_mpi_launch(find(mpirun(0, 4)), 8, command), Config,
               "mpirun started 4 ranks, but the layout of [parallel] has 8");
}

}  // namespace
}  // namespace sextant

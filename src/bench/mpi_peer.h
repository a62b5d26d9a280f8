#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "comm/mpi_timing.h"

namespace sextant {

// Runs MPI's own collectives in separate processes, which mpirun starts as
//   program bench collectives --as-mpi-peer TASKS --repeats N --turn-ms N --json
// and which print {"seconds": [...]}. Killed at the deadline. Error(Failure) says what was missing,
// or has their output.
std::vector<double> run_mpi_peer(const std::string& program, int ranks,
                                 const std::vector<NativeTask>& tasks, const Turns& turns,
                                 double timeout_s);

// "all_reduce:4096,...": operation and bytes. Error(Usage) for an invalid task.
std::string to_text(const std::vector<NativeTask>& tasks);
std::vector<NativeTask> parse_tasks(std::string_view text);

// Path of this program, to start it again.
std::string own_program();
bool is_on_path(const std::string& program);

}  // namespace sextant

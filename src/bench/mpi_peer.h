#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "comm/native.h"

namespace sextant {

// MPI's own collectives in processes of their own, which mpirun starts as
//   program bench collectives --as-mpi-peer TASKS --repeats N --turn-ms N --json
// and which print {"seconds": [...]}. Ended at the deadline. Error(Failure) says what was missing
// or what they said.
std::vector<double> run_mpi_peer(const std::string& program, int ranks,
                                 const std::vector<NativeTask>& tasks, const Turns& turns,
                                 double deadline_s);

// "all_reduce:4096,...": operation and bytes. Error(Usage) for what is no task.
std::string to_text(const std::vector<NativeTask>& tasks);
std::vector<NativeTask> parse_tasks(std::string_view text);

// The file of this very program, to be started again.
std::string own_program();
bool is_on_path(const std::string& program);

}  // namespace sextant

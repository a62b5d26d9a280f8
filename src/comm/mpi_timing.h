#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/call.h"

namespace sextant {

// The MPI library of this build, such as "Open MPI v4.1.4"; "" when there is none.
std::string mpi_library();

// A collective of the MPI library to time, in f32. `bytes` is the size of every rank's vector for
// AllReduce (in place) and Broadcast, of the input for ReduceScatter, of the output for AllGather,
// of what each rank sends for AllToAll; rounded down to a multiple of the ranks.
struct NativeTask {
  Operation operation = Operation::AllReduce;
  int64_t bytes = 0;
};

// How long to measure.
struct Turns {
  int repeats = 5;         // turns per task; the fastest counts
  double seconds = 0.005;  // duration of a turn, which has at least one call
  // Number of calls in a turn if one call takes this long.
  int calls(double seconds_of_one) const;
};

// For a process started by mpirun that does not use MPI otherwise: initializes MPI, runs all tasks,
// finalizes MPI. On rank 0 returns the seconds per call of each task (first rank's begin to last
// rank's end of a turn, divided by its calls); elsewhere nothing. A wrong result is Error(Failure);
// a build without MPI is Error(Usage).
std::vector<double> time_native(std::span<const NativeTask> tasks, const Turns& turns,
                                const Clock& clock);

}  // namespace sextant

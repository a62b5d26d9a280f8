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

// A collective to time as MPI itself does it, on f32. Bytes are those of the whole vector:
// AllReduce (in place) and Broadcast: of every rank's; ReduceScatter: of the input; AllGather: of
// the output; AllToAll: of what each rank sends. As many elements as divide by the ranks are used.
struct NativeTask {
  Operation operation = Operation::AllReduce;
  int64_t bytes = 0;
};

// How long to measure.
struct Turns {
  int repeats = 5;         // turns of each task; the best counts
  double seconds = 0.005;  // of one turn; at least one call
  // Calls in a turn when one takes this long.
  int calls(double seconds_of_one) const;
};

// For a process that mpirun started, and that uses MPI for nothing else: starts MPI, runs every
// task, ends MPI. Seconds of one call for each task (a turn from the first rank's begin to the last
// one's end, over its calls) on rank 0; nothing on the others. A sum that comes out wrong is
// Error(Failure); a build without MPI Error(Usage).
std::vector<double> time_native(std::span<const NativeTask> tasks, const Turns& turns,
                                const Clock& clock);

}  // namespace sextant

#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/storage.h"

namespace sextant {

enum class Health { Ok, Warning, Problem };

// Result of one check, and how to fix a problem.
struct CheckUp {
  std::string name;
  Health status = Health::Ok;
  std::string detail;
  std::string fix;  // "" if there is nothing to fix
};

// Checks this machine: instruction set, cores, memory, page size, GPU and its libraries, launchers,
// whether the directory `out` is writable, whether kernels, two ranks in this process and two
// processes over MPI give correct results. Takes about two seconds, on a GPU some more, and leaves
// no files but those of the cache directory. `program`: path of `sextant` itself, which mpirun
// starts.
std::vector<CheckUp> examine(Storage& storage, const Clock& clock, const std::string& out,
                             const std::string& program);

}  // namespace sextant

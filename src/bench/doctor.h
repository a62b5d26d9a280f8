#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/storage.h"

namespace sextant {

enum class Health { Ok, Warning, Problem };

// One thing that was looked at, and what to do about it when it is not well.
struct CheckUp {
  std::string name;
  Health status = Health::Ok;
  std::string detail;
  std::string fix;  // "" when there is nothing to do
};

// Looks at this machine: instruction set, cores, memory, page size, GPU, launchers, whether the
// directory `out` can be written, whether kernels, two ranks in this process and two processes over
// MPI give the right numbers. Takes about two seconds and leaves nothing behind. `program` is the
// file of `sextant` itself, which mpirun starts.
std::vector<CheckUp> examine(Storage& storage, const Clock& clock, const std::string& out,
                             const std::string& program);

}  // namespace sextant

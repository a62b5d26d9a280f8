#pragma once
#include <string>
#include <vector>

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
// directory `out` can be written, whether threads and kernels give the right numbers. Takes about a
// second and leaves nothing behind.
std::vector<CheckUp> examine(Storage& storage, const std::string& out);

}  // namespace sextant

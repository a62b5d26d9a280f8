#pragma once
#include <string>

#include "base/dtype.h"
#include "base/storage.h"

namespace sextant {

// Exports the checkpoint in `dtype`, imports the export and returns the largest difference of their
// logits. `scratch`: a directory for the copies, removed afterwards; refused if it exists.
double round_trip_difference(Storage& storage, const std::string& checkpoint,
                             const std::string& scratch, DType dtype);

}  // namespace sextant

#pragma once
#include <string>

#include "base/dtype.h"
#include "base/storage.h"

namespace sextant {

// Exports the checkpoint in `dtype`, imports the export and returns the largest difference of the
// logits of the two. `scratch` is a directory for the copies, removed afterwards; one that exists
// is refused.
double round_trip_difference(Storage& storage, const std::string& checkpoint,
                             const std::string& scratch, DType dtype);

}  // namespace sextant

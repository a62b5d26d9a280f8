#pragma once
#include <nlohmann/json_fwd.hpp>

#include "train/preflight.h"

namespace sextant::cli {

// Bytes by the name of their category.
nlohmann::ordered_json categories_json(const CategoryBytes& bytes);
// What each rank needs: rank, peak, reserved, host, categories.
nlohmann::ordered_json memory_json(const Preflight& flight);

}  // namespace sextant::cli

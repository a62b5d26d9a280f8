#include "cli/memory_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace sextant::cli {

nlohmann::ordered_json categories_json(const CategoryBytes& bytes) {
  nlohmann::ordered_json out;
  for (int i = 0; i < kCategories; ++i)
    out[std::string(name_of(static_cast<Category>(i)))] = bytes[static_cast<size_t>(i)];
  return out;
}

nlohmann::ordered_json memory_json(const Preflight& flight) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const MemoryEstimate& rank : flight.memory)
    out.push_back({{"rank", out.size()},
                   {"peak", rank.peak},
                   {"reserved", rank.reserved},
                   {"host", rank.host},
                   {"categories", categories_json(rank.categories())}});
  return out;
}

}  // namespace sextant::cli

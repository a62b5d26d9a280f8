#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Seed and size of `data.kind = builtin`.
inline constexpr uint64_t kBuiltinSeed = 1;
inline constexpr int64_t kBuiltinBytes = 1536 * 1024;

// Generated ASCII documents: stories with consistent people, places and counts, letters, dialogues,
// correct arithmetic, counting, rhymes, recipes, logs, tables that add up, walks on a grid. At
// least `min_bytes` in total. A pure function of its arguments; document i does not depend on
// min_bytes.
std::vector<std::string> builtin_documents(uint64_t seed, int64_t min_bytes);

}  // namespace sextant

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// What `data.kind = builtin` trains on: this seed and size.
inline constexpr uint64_t kBuiltinSeed = 1;
inline constexpr int64_t kBuiltinBytes = 1536 * 1024;

// Documents that the program writes itself, in ASCII: stories whose people, places and counts stay
// consistent, letters, dialogues, right arithmetic, counting, rhymes, recipes, logs, tables that
// add up, walks on a grid. At least `min_bytes` in all. A pure function of its arguments; document
// i is the same whatever min_bytes is.
std::vector<std::string> builtin_documents(uint64_t seed, int64_t min_bytes);

}  // namespace sextant

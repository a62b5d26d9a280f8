#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::house {

// Each module and all modules it may include: those listed after DEPS and what those may include.
using Modules = std::map<std::string, std::set<std::string>>;

// Reads the sextant_module and sextant_program lines of `root`/CMakeLists.txt.
Modules read_modules(const std::filesystem::path& root);

// One line for each include that the modules do not allow, and for each header without #pragma
// once.
//   - a module includes itself and the modules below it, by path from src/; tests also support/
//   - a folder inside a module is private to that module
//   - headers of a library with a folder name of its own (CUDA, MPI, ...) stay in such folders
//   - heavy headers stay out of headers
std::vector<std::string> find_forbidden_edges(const std::filesystem::path& root);

}  // namespace sextant::house

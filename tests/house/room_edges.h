#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::house {

// Each room and all rooms it may include: those listed after DEPS and what those may include.
using Rooms = std::map<std::string, std::set<std::string>>;

// Reads the sextant_room and sextant_program lines of `root`/CMakeLists.txt.
Rooms read_rooms(const std::filesystem::path& root);

// One line for each include that the rooms do not allow, and for each header without #pragma once.
//   - a room includes itself and the rooms below it, by path from src/; tests also support/
//   - a folder inside a room is private to that room
//   - headers of a library with a folder name of its own (CUDA, MPI, ...) stay in such folders
//   - heavy headers stay out of headers
std::vector<std::string> find_forbidden_edges(const std::filesystem::path& root);

}  // namespace sextant::house

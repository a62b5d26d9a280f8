#pragma once
#include <string>

namespace sextant {

enum class Absent { Made, Refused };  // what becomes of a directory that is not there yet

// Why nothing can be written in the directory `path`, in a few words; "" if it can be. Creates
// nothing: of a directory still to be made, the nearest one above it is looked at.
std::string why_not_writable(const std::string& path, Absent absent);

}  // namespace sextant

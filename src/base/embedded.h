#pragma once
#include <span>
#include <string_view>

namespace sextant {

// A text file of the repository that the build puts into the program (cmake/embed.cmake).
struct EmbeddedFile {
  std::string_view name;  // without folder and extension
  std::string_view text;
};

}  // namespace sextant

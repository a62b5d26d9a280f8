#include "house/sources.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace sextant::house {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, '/');) parts.push_back(part);
  return parts;
}

std::vector<Source> read_sources(const std::filesystem::path& root) {
  static const std::set<std::string> kEndings{".h", ".cpp", ".cu", ".cuh"};
  const std::filesystem::path src = root / "src";
  std::vector<Source> sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(src))
    if (entry.is_regular_file() && kEndings.contains(entry.path().extension().string()))
      sources.push_back(
          {entry.path().lexically_relative(src).generic_string(), read_lines(entry.path())});
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

}  // namespace sextant::house

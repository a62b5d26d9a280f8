#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace sextant::house {

// One source file of a module; `path` is relative to src/ and has forward slashes.
struct Source {
  std::string path;
  std::vector<std::string> lines;
};

// Every .h, .cpp, .cu and .cuh under `root`/src, in order of path.
std::vector<Source> read_sources(const std::filesystem::path& root);

std::vector<std::string> read_lines(const std::filesystem::path& file);

// "a/b/c.h" -> {"a", "b", "c.h"}
std::vector<std::string> split_path(const std::string& path);

}  // namespace sextant::house

#include "house/module_edges.h"

#include <regex>

#include "house/sources.h"

namespace sextant::house {
namespace {

// Which folder a library's headers are confined to.
struct Confined {
  std::regex header;
  std::string folder;
};

const std::vector<Confined>& confined_headers() {
  static const std::vector<Confined> kList{
      {std::regex("(cuda|cublas|nvtx|cub/|thrust/|cooperative_groups).*"), "cuda"},
      {std::regex("cudnn.*"), "cudnn"},
      {std::regex("mpi\\.h"), "mpi"},
      {std::regex("nccl.*"), "nccl"},
      {std::regex("pcre2.*"), "pcre2"},
      {std::regex("(zstd|zdict).*"), "zstd"},
  };
  return kList;
}

const std::regex& heavy_header() {
  static const std::regex kHeavy("(nlohmann|toml\\+\\+|CLI|fmt)/(?!json_fwd).*");
  return kHeavy;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_header(const std::string& path) {
  return ends_with(path, ".h") || ends_with(path, ".cuh");
}

// "" when `target`, included with quotes by `source`, is allowed; else why it is not.
std::string refuse_own(const std::filesystem::path& root, const Modules& modules,
                       const std::vector<std::string>& source, const std::string& target) {
  const std::vector<std::string> parts = split_path(target);
  if (parts.size() > 1 && parts[0] == "support" && ends_with(source.back(), "_test.cpp")) return "";
  if (!std::filesystem::exists(root / "src" / target)) return "is no file under src/";
  const std::string& module = source[0];
  if (parts[0] == module) return "";
  const auto below = modules.find(module);
  if (below == modules.end()) return "is included by a module that CMakeLists.txt does not list";
  if (!below->second.contains(parts[0]))
    return "is not in a module that " + module + " may include";
  // Kernels of all modules share the CUDA side of a Stream.
  const bool is_between_kernels = source.size() > 2 && source[1] == "cuda" && parts[1] == "cuda";
  if (parts.size() > 2 && !is_between_kernels) return "is private to " + parts[0];
  return "";
}

// The same for <target>.
std::string refuse_library(const std::vector<std::string>& source, const std::string& target) {
  for (const Confined& library : confined_headers()) {
    if (!std::regex_match(target, library.header)) continue;
    const bool inside = source.size() > 2 && source[1] == library.folder;
    if (!inside) return "belongs in a folder " + library.folder + "/ only";
  }
  if (is_header(source.back()) && std::regex_match(target, heavy_header()))
    return "is heavy: include it in a .cpp only";
  return "";
}

}  // namespace

Modules read_modules(const std::filesystem::path& root) {
  std::string text;
  for (const std::string& line : read_lines(root / "CMakeLists.txt"))
    text += line.substr(0, line.find('#')) + " ";
  static const std::regex kModule("sextant_(?:module|program)\\(\\s*(\\w+)([^)]*)\\)");
  static const std::regex kWord("\\w+");
  Modules modules;
  // A module is listed after those it names, so what they see is known when it is read.
  for (std::sregex_iterator it(text.begin(), text.end(), kModule), end; it != end; ++it) {
    std::set<std::string> below;
    const std::string deps = (*it)[2];
    for (std::sregex_iterator word(deps.begin(), deps.end(), kWord); word != end; ++word) {
      const auto dep = modules.find(word->str());
      if (dep == modules.end()) continue;  // DEPS itself
      below.insert(dep->first);
      below.insert(dep->second.begin(), dep->second.end());
    }
    modules[(*it)[1]] = below;
  }
  return modules;
}

std::vector<std::string> find_forbidden_edges(const std::filesystem::path& root) {
  static const std::regex kInclude("\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  const Modules modules = read_modules(root);
  std::vector<std::string> forbidden;
  for (const Source& source : read_sources(root)) {
    const std::vector<std::string> parts = split_path(source.path);
    bool once = !is_header(source.path);
    for (size_t i = 0; i < source.lines.size(); ++i) {
      if (source.lines[i] == "#pragma once") once = true;
      std::smatch match;
      if (!std::regex_match(source.lines[i], match, kInclude)) continue;
      const std::string target = match[2];
      std::string why = refuse_library(parts, target);
      if (why.empty() && match[1] == "\"") why = refuse_own(root, modules, parts, target);
      if (!why.empty())
        forbidden.push_back(source.path + ":" + std::to_string(i + 1) + ": " + target + " " + why);
    }
    if (!once) forbidden.push_back(source.path + ": lacks #pragma once");
  }
  return forbidden;
}

}  // namespace sextant::house

#include "house/markdown_links.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "house/sources.h"

namespace sextant::house {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> markdown_files(const fs::path& root) {
  static const std::regex kSkipped("\\..*|build.*|out|third_party");
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && std::regex_match(name, kSkipped)) it.disable_recursion_pending();
    if (it->is_regular_file() && it->path().extension() == ".md") files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Lines outside of fenced code; the others are empty, so that numbers stay right.
std::vector<std::string> prose_lines(const fs::path& file) {
  std::vector<std::string> lines = read_lines(file);
  bool code = false;
  for (std::string& line : lines) {
    const bool fence = line.rfind("```", 0) == 0;
    if (fence) code = !code;
    if (fence || code) line.clear();
  }
  return lines;
}

// The name under which a heading can be linked: lower case, spaces to dashes, no punctuation.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const unsigned char c : heading) {
    if (std::isalnum(c) || c == '-' || c == '_' || c >= 0x80)
      anchor += static_cast<char>(std::tolower(c));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

bool has_heading(const fs::path& file, const std::string& anchor) {
  for (const std::string& line : prose_lines(file)) {
    const size_t text = line.find_first_not_of('#');
    if (text == 0 || text == std::string::npos || line[text] != ' ') continue;
    if (anchor_of(line.substr(text + 1)) == anchor) return true;
  }
  return false;
}

bool resolves(const fs::path& file, const std::string& link) {
  static const std::regex kElsewhere("[a-z]+:.*");
  if (std::regex_match(link, kElsewhere)) return true;
  const size_t hash = link.find('#');
  const std::string path = link.substr(0, hash);
  const fs::path target = path.empty() ? file : file.parent_path() / path;
  if (!fs::exists(target)) return false;
  return hash == std::string::npos || has_heading(target, link.substr(hash + 1));
}

}  // namespace

std::vector<std::string> find_broken_links(const fs::path& root) {
  static const std::regex kLink("\\]\\(([^)\\s]+)\\)");
  static const std::regex kCode("`[^`]*`");
  std::vector<std::string> broken;
  for (const fs::path& file : markdown_files(root)) {
    const std::vector<std::string> lines = prose_lines(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string line = std::regex_replace(lines[i], kCode, "");
      for (std::sregex_iterator it(line.begin(), line.end(), kLink), end; it != end; ++it) {
        const std::string link = (*it)[1];
        if (!resolves(file, link))
          broken.push_back(file.lexically_relative(root).generic_string() + ":" +
                           std::to_string(i + 1) + ": " + link);
      }
    }
  }
  return broken;
}

}  // namespace sextant::house

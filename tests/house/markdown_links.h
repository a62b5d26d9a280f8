#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace sextant::house {

// One line for each link in a Markdown file under `root` whose file or heading does not exist.
// Links to other hosts are not followed; build folders and hidden folders are not read.
std::vector<std::string> find_broken_links(const std::filesystem::path& root);

}  // namespace sextant::house

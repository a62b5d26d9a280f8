#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"
#include "cli/command.h"

namespace sextant::cli {

// What may stand in place of the last word of a command line: commands, options, settings, their
// values, and files, each as a whole word. A word that ends with "=", "." or "/" goes on. `line`
// begins with the program; its words are separated as in a shell.
std::vector<std::string> complete(Storage& storage, std::string_view line);

// The words of a line, quotes and backslashes taken out; the last one may be "".
std::vector<std::string> words_of(std::string_view line);

}  // namespace sextant::cli

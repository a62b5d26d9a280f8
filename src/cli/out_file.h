#pragma once
#include <string>

#include "base/storage.h"

namespace sextant::cli {

// Refuses, before the work, a file to write whose name is that of a directory, such as "--out DIR",
// or in whose directory nothing can be written. `example`: the name of such a file.
void check_out_file(Storage& storage, const std::string& option, const std::string& path,
                    const std::string& example);

// Writes it, in a directory that is made if it is not there.
void write_out_file(Storage& storage, const std::string& path, const std::string& text);

}  // namespace sextant::cli

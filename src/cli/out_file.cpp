#include "cli/out_file.h"

#include "base/error.h"
#include "base/writable.h"

namespace sextant::cli {

void check_out_file(Storage& storage, const std::string& option, const std::string& path,
                    const std::string& example) {
  SXT_CHECK(!storage.is_directory(path), Usage, option, " ", path,
            " is a directory; name a file, such as ", join_path(path, example));
  SXT_CHECK(!path.starts_with("~/"), Usage, option, " ", path,
            ": no shell has expanded the ~; write the whole path, or $HOME", path.substr(1));
  const std::string problem = why_not_writable(parent_path(path), Absent::Made);
  SXT_CHECK(problem.empty(), Failure, "cannot write ", path, ": ", problem);
}

void write_out_file(Storage& storage, const std::string& path, const std::string& text) {
  storage.make_directories(parent_path(path));
  replace_file(storage, path, text);
}

}  // namespace sextant::cli

#include "train/run_paths.h"

#include "base/error.h"
#include "base/writable.h"

namespace sextant {
namespace {

void check(const char* key, const std::string& path, Absent absent) {
  // Shells expand it at the begin of a word only, and a directory "~" is deleted with the home.
  SXT_CHECK(path != "~" && !path.starts_with("~/"), Config, key, " = ", path,
            ": no shell has expanded the ~; write the whole path, or $HOME", path.substr(1));
  const std::string problem = why_not_writable(path, absent);
  SXT_CHECK(problem.empty(), Data, key, " = ", path, ": ", problem, "; ", key,
            " must be a directory to write in",
            absent == Absent::Refused ? ", which a run does not make" : "");
}

}  // namespace

void check_run_paths(const Config& config) {
  check("run.out", config.run.out, Absent::Made);
  if (!config.checkpoint.dir.empty()) check("checkpoint.dir", config.checkpoint.dir, Absent::Made);
  if (config.memory.offload != Offload::None && !config.memory.offload_dir.empty())
    check("memory.offload_dir", config.memory.offload_dir, Absent::Refused);
}

}  // namespace sextant

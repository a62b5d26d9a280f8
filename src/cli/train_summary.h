#pragma once
#include <string>
#include <vector>

#include "base/storage.h"
#include "train/run.h"

namespace sextant::cli {

// The last lines of a run's log: loss, average speed, where its checkpoint is, and what comes next.
// `words`: the command that ran, the program first.
std::string summary_text(Storage& storage, const RunResult& result, const Config& config,
                         const std::vector<std::string>& words);

}  // namespace sextant::cli

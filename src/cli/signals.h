#pragma once
#include <atomic>

namespace sextant::cli {

// From here on SIGTERM and the first SIGINT set the returned flag, so that a run can save and end;
// a second SIGINT ends the process at once with 130. SIGPIPE is ignored: writes say what happened.
const std::atomic<bool>& watch_signals();
// Whether it was SIGINT that set the flag.
bool was_interrupted();

}  // namespace sextant::cli

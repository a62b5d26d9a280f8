#pragma once
#include <atomic>

#include "cli/command.h"

namespace sextant::cli {

// WhenReady: SIGTERM, SIGUSR1 (which mpirun hands on to ranks) and the first SIGINT set the
// returned flag, so that a run can save and end; a second SIGINT ends the process at once with 130.
// AtOnce: so does the first, and SIGTERM kills. SIGPIPE and SIGXFSZ are ignored: writes say what
// happened, and a log nobody reads stops no run.
const std::atomic<bool>& watch_signals(Stops stops);

}  // namespace sextant::cli

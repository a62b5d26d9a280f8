#pragma once
#include <atomic>

#include "cli/command.h"

namespace sextant::cli {

// WhenReady: SIGTERM, SIGUSR1 (which mpirun hands on to ranks) and the first SIGINT set the
// returned flag, so that a run can save and end; a second SIGINT ends the process at once with 130.
// The first SIGINT or SIGTERM writes `acknowledgement`, a literal, to stderr at once, whatever the
// process is doing; "": nothing. AtOnce: the first SIGINT ends the process, and SIGTERM kills.
// SIGPIPE and SIGXFSZ are ignored: writes say what happened, and a log nobody reads stops no run.
const std::atomic<bool>& watch_signals(Stops stops, const char* acknowledgement);

}  // namespace sextant::cli
